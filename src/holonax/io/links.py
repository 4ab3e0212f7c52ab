"""A tree of links, as robot formats have it, becomes bodies and joints of a `Model`.

Links that are fixed to each other become one body; its frame is that of the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._messages import listed, warn
from ..model.items import ModelError
from ..model.model import Model
from ..model.shapes import Shape
from .problems import FileProblem, Problems
from .xml_tree import turn

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Freedom = Literal["fixed", "turn", "slide", "ball", "free"]


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], centre of mass and inertia about it [kg m^2], in the axes of a link."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray

    @staticmethod
    def together(parts: list[tuple[Inertial, np.ndarray, np.ndarray]]) -> Inertial | None:
        """Of several, each at a position and rotation in common axes."""
        mass = sum(x.mass for x, _, _ in parts)
        if mass <= 0:
            return None
        centres = [p + R @ x.com for x, p, R in parts]
        masses = np.array([x.mass for x, _, _ in parts])
        com = masses @ np.array(centres) / mass
        J = np.zeros((3, 3))
        for (x, _, R), c in zip(parts, centres, strict=True):
            d = c - com
            J += R @ x.inertia @ R.T + x.mass * (d @ d * np.eye(3) - np.outer(d, d))
        return Inertial(mass, com, 0.5 * (J + J.T))


@dataclass
class Link:
    """A link and how it hangs on another: `position` and `rotation` in the parent's axes where its
    joint is at zero, the joint's `axis` and `anchor` in its own, and where the joint `begins`."""

    name: str
    parent: str | None
    joint: str
    freedom: Freedom
    position: np.ndarray
    rotation: np.ndarray
    line: int
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertial: Inertial | None = None
    begins: float = 0.0
    damping: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    shapes: list[Shape] = field(default_factory=list)
    limits: tuple[float, float] | None = None


def model_of_links(
    links: Mapping[str, Link], gravity: ArrayLike, problems: Problems
) -> tuple[Model, dict[str, str]]:
    """The model, and for each link the name of the body it belongs to; links come after their
    parents, and what has no parent is the ground."""
    model = Model(gravity=gravity)
    place: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    body: dict[str, str] = {}
    for link in links.values():
        place[link.name] = _placed(link, place)
        welded = link.parent is None or link.freedom == "fixed"
        own = "ground" if link.parent is None else body[link.parent]
        body[link.name] = own if welded else link.name
    for name in dict.fromkeys(x for x in body.values() if x != "ground"):
        with _told(problems, links[name].line):
            _add_body(model, name, [x for x in links.values() if body[x.name] == name], place)
    problems.check()
    for link in links.values():
        if link.parent is not None and link.freedom not in ("fixed", "free"):
            with _told(problems, link.line):
                _add_joint(model, link, body, place)
    problems.check()
    _tell_limits(links, problems)
    return model, body


def _tell_limits(links: Mapping[str, Link], problems: Problems) -> None:
    """Say that joints go beyond their limits, and what these are from where the joints begin."""
    found = [x for x in links.values() if x.limits is not None and x.freedom in ("turn", "slide")]
    said = [
        f"{x.joint} {x.limits[0] - x.begins:g} to {x.limits[1] - x.begins:g} "
        f"{'rad' if x.freedom == 'turn' else 'm'}"
        for x in found
        if x.limits is not None
    ]
    if said:
        what = "angle" if found[0].freedom == "turn" else "slide"
        warn(
            f"{problems.path}: limits of joints are not enforced ({listed(said, 4)}). Watch one "
            f"with hx.Event('limit', '{found[0].joint}.{what}', level=..., terminal=True)."
        )


def _told(problems: Problems, line: int) -> Any:
    problems.lines[("link", line)] = line
    return problems.at(("link", line))


def _placed(link: Link, place: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Where a link is in the world in the initial configuration."""
    p, R = (np.zeros(3), np.eye(3)) if link.parent is None else place[link.parent]
    p, R = p + R @ link.position, R @ link.rotation
    if link.freedom == "turn":
        moved = turn(link.axis, link.begins)
        return p + R @ (link.anchor - moved @ link.anchor), R @ moved
    return (p + R @ link.axis * link.begins, R) if link.freedom == "slide" else (p, R)


def _add_body(
    model: Model, name: str, parts: list[Link], place: dict[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    p, R = place[name]
    solids, shapes = [], []
    for link in parts:
        at, axes = place[link.name]
        offset, turned = R.T @ (at - p), R.T @ axes
        shapes += [x.rotated(turned).moved(offset) for x in link.shapes]
        if link.inertial is not None:
            solids.append((link.inertial, offset, turned))
    whole = Inertial.together(solids)
    if whole is None:
        raise ModelError(
            f"link {name!r}: it moves but has no mass. Give it mass and inertia, or fix it to "
            "another link."
        )
    look = {"shape": shapes} if shapes else {}
    model.body(name, whole.mass, whole.inertia, com=whole.com, position=p, rotation=R, **look)


def _add_joint(
    model: Model,
    link: Link,
    body: Mapping[str, str],
    place: dict[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    p, R = place[link.name]
    at, axis = p + R @ link.anchor, R @ link.axis
    a, b = body[str(link.parent)], body[link.name]
    if link.freedom == "ball":
        model.spherical(link.joint, a, b, at=at)
    elif link.freedom == "turn":
        model.revolute(link.joint, a, b, at=at, axis=axis)
    else:
        model.prismatic(link.joint, a, b, at=at, axis=axis)
    if link.damping:
        model.joint_damping(f"{link.joint} damping", link.joint, link.damping)
    if link.stiffness and link.freedom == "turn":
        rest = link.rest - link.begins
        model.torsion_spring(
            f"{link.joint} spring", joint=link.joint, stiffness=link.stiffness, angle=rest
        )
    elif link.stiffness:
        raise ModelError(f"joint {link.joint!r}: a spring in a joint that slides is not read.")


def ordered(links: Mapping[str, Link], problems: Problems) -> dict[str, Link]:
    """The links, each after its parent; those that hang on nothing, or on themselves, are told."""
    out: dict[str, Link] = {}
    left = dict(links)
    while left:
        ready = [x for x in left.values() if x.parent is None or x.parent in out]
        if not ready:
            for link in left.values():
                why = (
                    "is not there"
                    if link.parent not in links
                    else "hangs on it in turn, by way of others"
                )
                problems.found.append(
                    FileProblem(link.line, f"link {link.name!r}: its parent {link.parent!r} {why}.")
                )
            problems.check()
        for link in ready:
            out[link.name] = left.pop(link.name)
    return out
