"""Shapes: what bodies look like. They are for pictures only, and change no number of a motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _numbers
from .._arguments import choice
from .._messages import listed, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["rod", "box", "cylinder", "tube", "sphere", "point", "mesh"]
# What each kind of shape is given by.
_GIVEN: dict[str, tuple[str, ...]] = {
    "rod": ("length", "axis"),
    "box": ("size",),
    "cylinder": ("radius", "length", "axis"),
    "tube": ("radius", "inner_radius", "length", "axis"),
    "sphere": ("radius",),
    "point": (),
    "mesh": ("path", "scale"),
}
_OPTIONAL = {"axis", "scale"}
_MESHES = (".stl", ".obj", ".gltf", ".glb")


@dataclass(frozen=True, repr=False)
class Shape:
    """A solid in the coordinates of a body [m], for pictures only.

    **Arguments:**

    - `kind`: ``"rod"`` (`length`, `axis`), ``"box"`` (`size`, three edges), ``"cylinder"``
      (`radius`, `length`, `axis`), ``"tube"`` (and `inner_radius`), ``"sphere"`` (`radius`),
      ``"point"``, or ``"mesh"`` (`path` of an STL, OBJ or glTF file, and `scale`, its unit in m).
    - `axis`: ``"x"``, ``"y"`` or ``"z"``, along which a solid of revolution lies.
    - `position`, `rotation`: of its middle in the body, a point and a rotation matrix.
    """

    kind: Kind
    size: Any = None
    radius: float | None = None
    inner_radius: float | None = None
    length: float | None = None
    axis: str | None = None
    path: str | None = None
    scale: float | None = None
    position: Any = (0.0, 0.0, 0.0)
    rotation: Any = None

    def __post_init__(self) -> None:
        owner = "Shape"
        choice(owner, "kind", self.kind, tuple(_GIVEN))
        owner = f"Shape {self.kind!r}"
        wanted = _GIVEN[self.kind]
        for name in ("size", "radius", "inner_radius", "length", "axis", "path", "scale"):
            given = getattr(self, name) is not None
            if given and name not in wanted:
                raise ValueError(
                    f"{owner}: {name} means nothing for it. Give {listed(wanted) or 'none'}."
                )
            if not given and name in wanted and name not in _OPTIONAL:
                raise ValueError(f"{owner}: {name} is missing. Give {listed(wanted)}.")
        default = "x" if self.kind == "rod" else "z"
        if "axis" in wanted:
            self._set("axis", choice(owner, "axis", self.axis or default, ("x", "y", "z")))
        for name in ("radius", "inner_radius", "length", "scale"):
            if getattr(self, name) is not None:
                good = "a finite number ≥ 0, in m"
                value = getattr(self, name)
                self._set(
                    name,
                    _numbers.number(owner, name, value, good=lambda x: x >= 0, wanted=good),
                )
        if self.size is not None:
            self._set("size", tuple(_numbers.array(owner, "size", self.size, (3,)).tolist()))
        if self.path is not None:
            self._set("path", _mesh_path(owner, self.path))
        self._set("position", tuple(_point(owner, self.position)))
        if self.rotation is not None:
            R = _numbers.array(owner, "rotation", self.rotation, (3, 3))
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0:
                raise ValueError(f"{owner}: rotation is not a rotation matrix. Normalise it.")
            plain = R.tolist()
            self._set("rotation", None if plain == np.eye(3).tolist() else tuple(map(tuple, plain)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def pose(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(rotation matrix, position) of its middle in the body."""
        R = np.eye(3) if self.rotation is None else np.array(self.rotation)
        return R, np.array(self.position)

    def moved(self, offset: ArrayLike) -> Shape:
        """The same shifted by a vector."""
        return replace(self, position=np.array(self.position) + np.asarray(offset))

    def rotated(self, R: ArrayLike) -> Shape:
        """The same turned about the origin of the body's coordinates."""
        own, position = self.pose
        R = np.asarray(R, dtype=float)
        return replace(self, position=R @ position, rotation=R @ own)

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of strings, numbers and lists; without what is default."""
        out: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (field.name == "position" and not any(value)):
                out[field.name] = _listed(value)
        return out

    @staticmethod
    def from_dict(said: Mapping[str, Any]) -> Shape:
        """The shape of a dictionary made by `to_dict`."""
        known = {field.name for field in fields(Shape)}
        unknown = [x for x in said if x not in known]
        if unknown or "kind" not in said:
            raise ValueError(
                f"Shape: {shown(dict(said))} is not the dictionary of a shape. Give a kind, and "
                f"some of {listed(sorted(known - {'kind'}), 20)}."
            )
        return Shape(**said)

    def __repr__(self) -> str:
        said = self.to_dict()
        words = [repr(said.pop("kind"))]
        return f"Shape({', '.join([*words, *(f'{k}={shown(x)}' for k, x in said.items())])})"


def as_shapes(owner: str, given: object) -> tuple[Shape, ...]:
    """What a user gives as the shape of a body: shapes, solids with mass, paths, dictionaries."""
    if isinstance(given, Shape):
        return (given,)
    if isinstance(given, Mapping):
        return (Shape.from_dict(given),)
    if isinstance(given, str | PurePath):
        return (Shape("mesh", path=str(given)),)
    solids = getattr(given, "shapes", None)
    if isinstance(solids, tuple):
        return solids
    if isinstance(given, list | tuple):
        return tuple(shape for one in given for shape in as_shapes(owner, one))
    raise ValueError(
        f"{owner}: shape={shown(given)} is not understood. Give hx.Shape(...), a solid such as "
        "hx.box(...), the path of an STL, OBJ or glTF file, or a list of these."
    )


def _point(
    owner: str, value: np.ndarray | tuple[float, float, float] | Sequence[float]
) -> list[float]:
    found = _numbers.array(owner, "position", value)
    if found.shape not in ((2,), (3,)):
        raise ValueError(
            f"{owner}: position={shown(value)} must be a point of two or three numbers."
        )
    return [*found.tolist(), 0.0][:3]


def _mesh_path(owner: str, path: str | Path) -> str:
    if not isinstance(path, str | PurePath) or PurePath(path).suffix.lower() not in _MESHES:
        raise ValueError(
            f"{owner}: path={shown(path)} is not the path of a mesh. Give a file that ends in "
            f"{', '.join(_MESHES)}."
        )
    return str(path)


def _listed(value: float | str | tuple[float, float, float]) -> Any:
    return [_listed(x) for x in value] if isinstance(value, tuple) else value
