"""Models of MuJoCo (MJCF) without contact: bodies, one joint each, inertias given or from geoms,
springs and dampers in joints, the equalities `connect` and `weld`, and geoms for pictures.

What would change the motion and is not read is an error, but for contacts and limits of joints,
which are told by a warning; sensors are left out.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .._messages import shown, warn
from ..model.items import ModelError
from ..model.model import Model
from ..model.shapes import Shape
from .links import Freedom, Inertial, Link, model_of_links
from .problems import FileProblem, Problems
from .robot_shapes import mjcf_mesh, mjcf_shape, tried
from .xml_tree import XmlElement, turn

_FREEDOM: dict[str, Freedom] = {"hinge": "turn", "slide": "slide", "ball": "ball", "free": "free"}
_LEFT_OUT = ("visual", "asset", "statistic", "size", "custom", "keyframe", "sensor", "contact")
_READ = ("compiler", "option", "default", "worldbody", "equality")
_COUNTS = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}  # of sizes
_DENSITY = 1000.0


class _Reader:
    """The settings of a file, and what has been read of it."""

    def __init__(self, root: XmlElement, problems: Problems, folder: Path):
        self.problems = problems
        self.links: dict[str, Link] = {}
        self.joints: set[str] = set()
        self.touching = False
        compiler = {k: x for e in root.all("compiler") for k, x in e.attributes.items()}
        self.unit = 1.0 if compiler.get("angle", "degree") == "radian" else np.pi / 180
        self.sequence = compiler.get("eulerseq", "xyz")
        self.from_geoms = compiler.get("inertiafromgeom", "auto")
        self.folder = folder / compiler.get("meshdir", compiler.get("assetdir", ""))
        self.limited = compiler.get("autolimits", "true") != "false"
        meshes = [x for section in root.all("asset") for x in section.all("mesh")]
        stems = [PurePosixPath(x.attributes.get("file", "")).stem for x in meshes]
        self.meshes = {x.attributes.get("name", stem): x for x, stem in zip(meshes, stems)}
        self.defaults: dict[str, dict[str, str]] = {}
        for section in root.all("default"):
            for element in section.children:
                if element.tag == "default":
                    self.refuse(element, "classes of defaults are not read. Write them out.")
                else:
                    self.defaults.setdefault(element.tag, {}).update(element.attributes)

    def refuse(self, element: XmlElement, text: str) -> None:
        self.problems.found.append(FileProblem(element.line, f"<{element.tag}>: {text}"))

    def full(self, element: XmlElement) -> XmlElement:
        """An element with the attributes that are default."""
        for name in ("class", "childclass"):
            if name in element.attributes:
                self.refuse(element, "classes of defaults are not read. Write them out.")
        own = {**self.defaults.get(element.tag, {}), **element.attributes}
        return XmlElement(element.tag, own, element.line, element.children)

    def rotation(self, element: XmlElement) -> np.ndarray:
        """The orientation that an element has, said in one of MuJoCo's ways."""
        known = element.attributes
        if "quat" in known:
            return _of_quaternion(element.numbers("quat", 4))
        if "axisangle" in known:
            *axis, angle = element.numbers("axisangle", 4)
            return turn(_unit(element, np.array(axis)), angle * self.unit)
        if "euler" in known:
            return self._of_euler(element.numbers("euler", 3) * self.unit)
        if "xyaxes" in known:
            both = element.numbers("xyaxes", 6)
            x = _unit(element, both[:3])
            y = _unit(element, both[3:] - x * (x @ both[3:]))
            return np.column_stack([x, y, np.cross(x, y)])
        if "zaxis" in known:
            return _along(_unit(element, element.numbers("zaxis", 3)))
        return np.eye(3)

    def _of_euler(self, angles: np.ndarray) -> np.ndarray:
        R = np.eye(3)
        for letter, angle in zip(self.sequence, angles, strict=False):
            one = turn(np.eye(3)["xyz".index(letter.lower())], angle)
            R = R @ one if letter.islower() else one @ R
        return R

    # -- bodies --------------------------------------------------------------------------------

    def body(self, element: XmlElement, parent: str) -> None:
        element = self.full(element)
        with self.told(element):
            name = element.attributes.get("name") or f"body {len(self.links)}"
            if name in self.links or name == "ground" or "." in name:
                raise ModelError(f"body {name!r}: the name is taken, or has a dot. Choose another.")
            position = element.numbers("pos", 3, (0, 0, 0))
            link = Link(name, parent, "", "fixed", position, self.rotation(element), element.line)
            self.links[name] = link
            link.inertial = self.inertial(element)
            for geom in element.all("geom"):
                link.shapes += tried(f"body {name!r}", partial(self.shape, self.full(geom)))
            self.joint(element, link)
            for inner in element.all("body"):
                self.body(inner, name)
        for child in element.children:
            if child.tag in ("include", "composite", "flexcomp", "plugin", "replicate", "attach"):
                self.refuse(child, "this is not read. Write out what it stands for.")

    def told(self, element: XmlElement) -> Any:
        self.problems.lines[("link", element.line)] = element.line
        return self.problems.at(("link", element.line))

    def joint(self, body: XmlElement, link: Link) -> None:
        found = [self.full(x) for x in body.all("joint")] + body.all("freejoint")
        if not found:
            return
        if len(found) > 1:
            raise ModelError(
                f"body {link.name!r}: it has {len(found)} joints. One is read; put a body with "
                "some mass between them."
            )
        said = found[0]
        kind = "free" if said.tag == "freejoint" else said.attributes.get("type", "hinge")
        if kind not in _FREEDOM:
            raise ModelError(f"body {link.name!r}: its joint is of the unknown type {kind!r}.")
        link.freedom = _FREEDOM[kind]
        name = said.attributes.get("name") or f"{link.name} joint"
        link.joint = f"{name} joint" if name in self.links or name in self.joints else name
        self.joints.add(link.joint)
        for what in ("armature", "frictionloss"):
            if said.number(what, 0.0):
                raise ModelError(f"joint {name!r}: {what} is not read. Leave it out.")
        link.axis = _unit(said, said.numbers("axis", 3, (0, 0, 1)))
        link.anchor = said.numbers("pos", 3, (0, 0, 0))
        link.damping, link.stiffness = said.number("damping", 0.0), said.number("stiffness", 0.0)
        if link.damping and kind == "free":
            raise ModelError(f"joint {name!r}: damping of a free body is not read. Leave it out.")
        unit = self.unit if kind == "hinge" else 1.0
        limited = said.attributes.get("limited", "auto")
        if "range" in said.attributes and (
            limited == "true" or (limited == "auto" and self.limited)
        ):
            low, high = (said.numbers("range", 2) - said.number("ref", 0.0)) * unit
            link.limits = float(low), float(high)
        link.rest = (said.number("springref", 0.0) - said.number("ref", 0.0)) * unit

    # -- inertias ------------------------------------------------------------------------------

    def inertial(self, body: XmlElement) -> Inertial | None:
        said = body.first("inertial")
        if said is not None and self.from_geoms != "true":
            R = self.rotation(said)
            if "fullinertia" in said.attributes:
                xx, yy, zz, xy, xz, yz = said.numbers("fullinertia", 6)
                J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            else:
                J = np.diag(said.numbers("diaginertia", 3))
            return Inertial(said.number("mass"), said.numbers("pos", 3), R @ J @ R.T)
        parts = [self.geom(self.full(x)) for x in body.all("geom")]
        return Inertial.together([x for x in parts if x is not None])

    def geom(self, geom: XmlElement) -> tuple[Inertial, np.ndarray, np.ndarray] | None:
        """The mass properties of a geom and where it is in its body."""
        kind = geom.attributes.get("type", "sphere")
        free = geom.number("contype", 1) == 0 and geom.number("conaffinity", 1) == 0
        self.touching = self.touching or not free
        if kind in ("plane", "hfield") or geom.attributes.get("mass") == "0":
            return None
        if kind not in _COUNTS:
            raise ModelError(
                f"geom of type {kind!r}: its mass is not computed. Give the body an <inertial>."
            )
        said, position, R = self.placed(geom, kind)
        volume, J = _solid(kind, said)
        mass = geom.number("mass", volume * geom.number("density", _DENSITY))
        return Inertial(mass, np.zeros(3), mass * np.diag(J)), position, R

    def shape(self, geom: XmlElement) -> Shape | None:
        """What a geom looks like."""
        kind = geom.attributes.get("type", "mesh" if "mesh" in geom.attributes else "sphere")
        if kind == "mesh":
            asset = self.meshes.get(geom.word("mesh"))
            if asset is None:
                raise ValueError(f"there is no mesh {shown(geom.word('mesh'))} among the assets.")
            at = geom.numbers("pos", 3, (0, 0, 0))
            return mjcf_mesh(asset, self.folder, at, self.rotation(geom))
        return mjcf_shape(kind, *self.placed(geom, kind)) if kind in _COUNTS else None

    def placed(self, geom: XmlElement, kind: str) -> tuple[list[float], np.ndarray, np.ndarray]:
        """The sizes of a solid geom, half lengths as MuJoCo has them, and where it is."""
        position, R = geom.numbers("pos", 3, (0, 0, 0)), self.rotation(geom)
        ends = "fromto" in geom.attributes
        count = _COUNTS[kind] - (1 if ends else 0)
        said = [float(x) for x in geom.word("size").split()[:count]]
        if len(said) != count or not all(0 < x < np.inf for x in said):
            raise ModelError(f"geom: size={shown(geom.word('size'))} must be {count} lengths.")
        if ends:
            both = geom.numbers("fromto", 6)
            along = both[3:] - both[:3]
            position, R = 0.5 * (both[:3] + both[3:]), _along(_unit(geom, along))
            said.append(0.5 * float(np.linalg.norm(along)))
        return said, position, R


def mjcf_model(root: XmlElement, path: Path, problems: Problems) -> Model:
    """The model of a <mujoco> document."""
    reader = _Reader(root, problems, path.parent)
    for section in root.children:
        if section.tag not in (*_READ, *_LEFT_OUT):
            reader.refuse(section, "this is not read, and would change the motion. Leave it out.")
    gravity, contact = np.array([0.0, 0.0, -9.81]), True
    for option in root.all("option"):
        with reader.told(option):
            gravity = option.numbers("gravity", 3, gravity)
            for what in ("density", "viscosity"):
                if option.number(what, 0.0):
                    raise ModelError(f"<option>: {what} of a medium is not read. Leave it out.")
            flags = option.first("flag")
            contact &= flags is None or flags.attributes.get("contact") != "disable"
    world = Link("world", None, "", "fixed", np.zeros(3), np.eye(3), root.line)
    reader.links[world.name] = world
    for section in root.all("worldbody"):
        for body in section.all("body"):
            reader.body(body, world.name)
    problems.check()
    model, body = model_of_links(reader.links, gravity, problems)
    for section in root.all("equality"):
        for said in section.children:
            with reader.told(said):
                _tie(model, said, body)
    problems.check()
    if reader.touching and contact:
        warn(f"{problems.path}: contacts are not read; bodies pass through each other.")
    return model


def _tie(model: Model, said: XmlElement, body: dict[str, str]) -> None:
    """A `connect` or a `weld` between two bodies."""
    if said.attributes.get("active") == "false":
        return
    if said.tag not in ("connect", "weld") or "body1" not in said.attributes:
        raise ModelError(f"<{said.tag}>: of equalities connect and weld of bodies are read.")
    first, second = said.word("body1"), said.attributes.get("body2", "world")
    for name in (first, second):
        if name not in body:
            raise ModelError(f"<{said.tag}>: there is no body {name!r}.")
    a, b = body[first], body[second]
    name = said.attributes.get("name") or f"{said.tag} {first} {second}"
    name = f"{name} {said.tag}" if name in model else name
    if said.tag == "weld":
        model.fixed(name, a, b)
        return
    if first != a and a != "ground":
        raise ModelError(f"<connect>: body {first!r} is fixed to {a!r}. Name that instead.")
    anchor = said.numbers("anchor", 3)
    if a == "ground":
        model.spherical(name, a, b, at=anchor)
    else:
        model.spherical(name, a, b, at_a=anchor)


def _solid(kind: str, size: list[float]) -> tuple[float, np.ndarray]:
    """The volume [m^3] and the moments of inertia of one kilogram [m^2]."""
    if kind == "sphere":
        (r,) = size
        return 4 / 3 * np.pi * r**3, np.full(3, 0.4 * r * r)
    if kind == "box":
        x, y, z = np.square(size)
        return 8 * float(np.prod(size)), np.array([y + z, x + z, x + y]) / 3
    if kind == "ellipsoid":
        x, y, z = np.square(size)
        return 4 / 3 * np.pi * float(np.prod(size)), np.array([y + z, x + z, x + y]) / 5
    r, half = size
    length = 2 * half
    tube = np.pi * r * r * length
    if kind == "cylinder":
        across = r * r / 4 + length**2 / 12
        return tube, np.array([across, across, r * r / 2])
    ball = 4 / 3 * np.pi * r**3
    across = tube * (r * r / 4 + length**2 / 12)
    across += ball * (0.4 * r * r + length**2 / 4 + 3 * length * r / 8)
    along = tube * r * r / 2 + ball * 0.4 * r * r
    return tube + ball, np.array([across, across, along]) / (tube + ball)


def _unit(element: XmlElement, x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(x)
    if not size > 1e-12:
        raise ModelError(f"<{element.tag}>: a direction has no length.")
    return x / size


def _of_quaternion(e: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(e)
    if not size > 1e-12:
        raise ModelError("a quaternion has no length.")
    w, x, y, z = e / size
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _along(z: np.ndarray) -> np.ndarray:
    """The smallest rotation that takes the z axis to a direction."""
    axis = np.cross([0.0, 0.0, 1.0], z)
    size = np.linalg.norm(axis)
    if size < 1e-12:
        return np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return turn(axis / size, float(np.arctan2(size, z[2])))
