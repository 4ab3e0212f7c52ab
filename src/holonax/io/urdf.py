"""Robots described in URDF: links and joints, and closed loops from a file beside it.

`arm.urdf` may have `arm.loops.toml` beside it, a model file without bodies whose items refer to
links: joints that close loops, springs, drivers. It may also say ``base = "floating"`` (else the
root link is the ground) and, in ``[start]``, where joints begin: ``elbow = 0.5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._messages import listed, shown, warn
from ..model.items import ModelError
from ..model.model import Model
from ..model.shapes import Shape
from .links import Freedom, Inertial, Link, model_of_links, ordered
from .problems import FileProblem, Problems
from .reader import add_items, parsed_file, text_of
from .robot_shapes import tried, urdf_shape
from .values import Numbers, parameters_of
from .xml_tree import XmlElement, rotation_rpy

_FREEDOM: dict[str, Freedom] = {
    "revolute": "turn",
    "continuous": "turn",
    "prismatic": "slide",
    "fixed": "fixed",
    "floating": "free",
}
_GRAVITY = (0.0, 0.0, -9.81)


def urdf_model(root: XmlElement, path: Path, problems: Problems) -> Model:
    """The model of a <robot>, with what the file beside it adds."""
    beside = path.with_suffix(".loops.toml")
    said, more = ({}, None)
    if beside.exists():
        said, more = parsed_file(beside, text_of(beside))
        _check_sections(said, more)
    links = _links(root, path.parent, problems)
    joints = {x.joint: x for x in links.values() if x.parent is not None}
    parameters = parameters_of(said.get("parameters", {}), {}, more or problems)
    if more is not None:
        numbers = Numbers(parameters, set(), more)
        _begin(said.get("start", {}), joints, numbers)
        if said.get("base", "fixed") == "floating":
            links = _floating(links)
        more.check()
    gravity = said.get("gravity", _GRAVITY)
    model, body = model_of_links(links, gravity, problems)
    for joint in root.all("joint"):
        mimic = joint.first("mimic")
        if mimic is not None:
            with problems.at(("link", joint.line)):
                _mimic(model, mimic, joint.attributes.get("name", ""), joints, body)
    problems.check()
    if more is not None:
        items = [_renamed(x, body) for x in said.get("items", [])]
        add_items(model, items, Numbers(parameters, set(), more), more)
        more.check()
    return model


def _check_sections(said: Mapping[str, Any], problems: Problems) -> None:
    known = ("holonax", "base", "gravity", "start", "parameters", "items")
    for key in said:
        if key not in known:
            problems.add((key,), f"there is no section {key!r}. There are {', '.join(known)}.")
    if said.get("base", "fixed") not in ("fixed", "floating"):
        problems.add(("base",), f"base={shown(said['base'])} must be 'fixed' or 'floating'.")
    for key, kind in (("start", dict), ("items", list)):
        if not isinstance(said.get(key, kind()), kind):
            problems.add((key,), f"{key}={shown(said[key])} is not understood.")
    problems.check()


def _begin(said: Mapping[str, Any], joints: Mapping[str, Link], numbers: Numbers) -> None:
    for name, value in said.items():
        with numbers.problems.at(("start", name)):
            if name not in joints:
                raise ModelError(
                    f"start: there is no joint {shown(name)}. There are {listed(joints, 20)}."
                )
            joints[name].begins = numbers.number(f"start: {name}", ("start", name), value) or 0.0


def _floating(links: Mapping[str, Link]) -> dict[str, Link]:
    """The same on a root that is free."""
    ground = Link(" ground", None, "", "fixed", np.zeros(3), np.eye(3), 1)
    out = {ground.name: ground}
    for link in links.values():
        if link.parent is None:
            link.parent, link.freedom = ground.name, "free"
        out[link.name] = link
    return out


def _renamed(item: object, body: Mapping[str, str]) -> Any:
    """An item with bodies in place of links that are fixed to them."""
    if not isinstance(item, Mapping):
        return item
    fields = ("a", "b", "body", "carrier", "on", "disc", "pinion", "rack")
    rename = lambda x: body.get(x, x) if isinstance(x, str) else x  # noqa: E731
    out = {k: rename(x) if k in fields else x for k, x in item.items()}
    if isinstance(out.get("bodies"), list):
        out["bodies"] = [rename(x) for x in out["bodies"]]
    return out


def _links(root: XmlElement, folder: Path, problems: Problems) -> dict[str, Link]:
    links: dict[str, Link] = {}
    for element in root.all("link"):
        problems.lines[("link", element.line)] = element.line
        with problems.at(("link", element.line)):
            name = element.word("name")
            if name in links:
                raise ModelError(f"link {name!r}: the name is given twice. Names must differ.")
            links[name] = Link(name, None, "", "fixed", np.zeros(3), np.eye(3), element.line)
            links[name].inertial = _inertial(element)
            for visual in element.all("visual"):
                links[name].shapes += _shapes(name, visual, folder)
    joints: set[str] = set()
    for element in root.all("joint"):
        problems.lines[("link", element.line)] = element.line
        with problems.at(("link", element.line)):
            _hang(element, links, joints)
    roots = [x.name for x in links.values() if x.parent is None]
    if not problems.found and len(roots) != 1:
        what = "no link is the root" if not roots else f"several links have no parent: {roots}"
        problems.found.append(FileProblem(root.line, f"{what}. A robot has one root."))
    problems.check()
    return ordered(links, problems)


def _origin(element: XmlElement | None) -> tuple[np.ndarray, np.ndarray]:
    found = None if element is None else element.first("origin")
    if found is None:
        return np.zeros(3), np.eye(3)
    return found.numbers("xyz", 3, (0, 0, 0)), rotation_rpy(found.numbers("rpy", 3, (0, 0, 0)))


def _inertial(link: XmlElement) -> Inertial | None:
    said = link.first("inertial")
    if said is None:
        return None
    com, R = _origin(said)
    mass, inertia = said.first("mass"), said.first("inertia")
    if mass is None or inertia is None:
        raise ModelError(f"link {link.word('name')!r}: <inertial> needs <mass> and <inertia>.")
    xx, xy, xz, yy, yz, zz = (
        inertia.number(x, 0.0) for x in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertial(mass.number("value"), com, R @ J @ R.T)


def _shapes(name: str, visual: XmlElement, folder: Path) -> list[Shape]:
    """What a <visual> looks like."""
    geometry = visual.first("geometry")
    if geometry is None:
        return []
    return tried(f"link {name!r}", lambda: urdf_shape(geometry, *_origin(visual), folder))


def _hang(element: XmlElement, links: dict[str, Link], joints: set[str]) -> None:
    name, kind = element.word("name"), element.word("type")
    owner = f"joint {name!r}"
    if name in joints or name in links:
        raise ModelError(f"{owner}: the name is taken. Names of links and joints must differ.")
    if kind not in _FREEDOM:
        raise ModelError(
            f"{owner}: its type {kind!r} is not read. There are {', '.join(_FREEDOM)}."
        )
    ends = {}
    for which in ("parent", "child"):
        said = element.first(which)
        if said is None or said.attributes.get("link") not in links:
            found = None if said is None else said.attributes.get("link")
            raise ModelError(f"{owner}: its {which}, {shown(found)}, is no link of this robot.")
        ends[which] = said.attributes["link"]
    link = links[ends["child"]]
    if link.parent is not None:
        raise ModelError(
            f"{owner}: link {link.name!r} hangs on {link.parent!r} already. Close loops in a file "
            "beside this one, NAME.loops.toml."
        )
    joints.add(name)
    link.parent, link.joint, link.freedom = ends["parent"], name, _FREEDOM[kind]
    link.position, link.rotation = _origin(element)
    axis = element.first("axis")
    found = np.array([1.0, 0.0, 0.0]) if axis is None else axis.numbers("xyz", 3)
    size = np.linalg.norm(found)
    if not size > 1e-12:
        raise ModelError(f"{owner}: its axis has no length.")
    link.axis = found / size
    limit = element.first("limit")
    if limit is not None and kind in ("revolute", "prismatic"):
        link.limits = limit.number("lower", 0.0), limit.number("upper", 0.0)
    dynamics = element.first("dynamics")
    if dynamics is not None:
        link.damping = dynamics.number("damping", 0.0)
        if dynamics.number("friction", 0.0):
            warn(f"{owner}: its dry friction is left out; add joint_friction to the model.")


def _mimic(
    model: Model, said: XmlElement, name: str, joints: Mapping[str, Link], body: Mapping[str, str]
) -> None:
    """Tie a joint that turns to another on the same link, as a pair of wheels."""
    owner = f"joint {name!r}"
    other = said.word("joint")
    if other not in joints:
        raise ModelError(f"{owner}: it mimics {other!r}, which is no joint of this robot.")
    first, second = joints[other], joints[name]
    ratio = said.number("multiplier", 1.0)
    carrier = body[str(second.parent)]
    same = carrier == body[str(first.parent)]
    if first.freedom != "turn" or second.freedom != "turn" or not same or ratio == 0:
        raise ModelError(
            f"{owner}: mimic is read for two joints that turn on the same link. Tie others with a "
            "custom_joint in Python."
        )
    begins = ratio * first.begins + said.number("offset", 0.0)
    if abs(begins - second.begins) > 1e-9:
        raise ModelError(
            f"{owner}: it begins at {second.begins:g} rad, but mimics {other!r} to be at "
            f"{begins:g}. Give both in [start] of the file beside this one."
        )
    model.gear(
        f"{name} mimic",
        body[first.name],
        body[second.name],
        carrier=carrier,
        ratio=abs(ratio),
        internal=ratio > 0,
        axis_a=_own_axis(model, other),
        axis_b=_own_axis(model, name),
    )


def _own_axis(model: Model, joint: str) -> np.ndarray:
    """The axis of a joint in the axes of its second body."""
    return model._joints[joint].axes_b[:, 2]
