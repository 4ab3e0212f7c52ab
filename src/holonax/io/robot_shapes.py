"""What links of robots look like: solids and meshes of URDF's visuals and MJCF's geoms.

A picture is never a reason to refuse a robot: what cannot be shown is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from .._messages import shown, warn
from ..model.shapes import Shape
from .xml_tree import XmlElement

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def tried(owner: str, make: Callable[[], Shape | None]) -> list[Shape]:
    """The shape, or none and a warning."""
    try:
        shape = make()
    except (ValueError, OSError) as error:
        warn(f"{owner}: it is not shown: {error}")
        return []
    return [] if shape is None else [shape]


def urdf_shape(geometry: XmlElement, p: ArrayLike, R: ArrayLike, folder: Path) -> Shape | None:
    """The shape of a <geometry>, its middle at p and turned by R."""
    for said in geometry.children:
        if said.tag == "box":
            return Shape("box", size=said.numbers("size", 3), position=p, rotation=R)
        if said.tag == "sphere":
            return Shape("sphere", radius=said.number("radius"), position=p)
        if said.tag == "cylinder":
            radius, length = said.number("radius"), said.number("length")
            return Shape("cylinder", radius=radius, length=length, position=p, rotation=R)
        if said.tag == "mesh":
            path = _found(said.word("filename"), folder)
            scale = _even(said.numbers("scale", 3, (1, 1, 1)))
            return Shape("mesh", path=str(path), scale=scale, position=p, rotation=R)
    return None


def mjcf_shape(kind: str, size: list[float], p: ArrayLike, R: ArrayLike) -> Shape | None:
    """The shape of a geom that is a solid; `size` as MuJoCo has it, half lengths. A capsule is
    shown as a cylinder, an ellipsoid not at all."""
    if kind == "box":
        return Shape("box", size=[2 * x for x in size], position=p, rotation=R)
    if kind == "sphere":
        return Shape("sphere", radius=size[0], position=p)
    if kind in ("cylinder", "capsule"):
        return Shape("cylinder", radius=size[0], length=2 * size[1], position=p, rotation=R)
    return None


def mjcf_mesh(asset: XmlElement, folder: Path, p: ArrayLike, R: ArrayLike) -> Shape:
    """The shape of a mesh among the assets, at the place of its geom."""
    path, scale = _found(asset.word("file"), folder), _even(asset.numbers("scale", 3, (1, 1, 1)))
    return Shape("mesh", path=str(path), scale=scale, position=p, rotation=R)


def _even(scale: np.ndarray) -> float:
    if not np.all(scale == scale[0]) or scale[0] <= 0:
        raise ValueError(
            f"scale={shown(scale.tolist())}: meshes have one scale for all directions."
        )
    return float(scale[0])


def _found(name: str, folder: Path) -> Path:
    """A file named in a robot's file: beside it, or, of a package, below a folder above it."""
    kind, sign, rest = name.partition("://")
    wanted = PurePosixPath(rest if sign else name)
    places = [folder / wanted]
    if kind == "package" and sign:  # the first part is the name of the package, often a folder
        inside = PurePosixPath(*wanted.parts[1:])
        places = [x / y for x in (folder, *folder.resolve().parents) for y in (wanted, inside)]
    for place in places:
        if place.is_file():
            return place
    raise ValueError(f"there is no file {shown(name)}.")
