"""Triangles of a mesh file: STL (text or binary), OBJ and glTF, read with numpy alone."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

_COMPONENTS = {5121: "<u1", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_SIZES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


def triangles(path: str) -> np.ndarray:
    """The corners (n, 3, 3) of all triangles, in the units of the file."""
    file = Path(path)
    try:
        stamp = file.stat().st_mtime_ns
    except OSError:
        raise FileNotFoundError(
            f"shape: the mesh {str(file)!r} cannot be read. Give a path that is right from where "
            "Python runs, or draw the body by another shape."
        ) from None
    return _read(str(file), stamp)


@lru_cache(maxsize=32)
def _read(path: str, stamp: int) -> np.ndarray:
    file = Path(path)
    readers = {".stl": _stl, ".obj": _obj, ".gltf": _gltf, ".glb": _gltf}
    try:
        found = np.asarray(readers[file.suffix.lower()](file), dtype=float).reshape(-1, 3, 3)
    except (KeyError, ValueError, IndexError, struct.error, OSError, TypeError) as error:
        raise ValueError(
            f"shape: the mesh {path!r} is not understood ({type(error).__name__}: {error}). Write "
            "it again as STL, OBJ or glTF with triangles."
        ) from None
    if not found.size or not np.all(np.isfinite(found)):
        raise ValueError(f"shape: the mesh {path!r} has no triangles, or some without a place.")
    found.flags.writeable = False
    return found


def _stl(file: Path) -> Any:
    data = file.read_bytes()
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        rows = np.frombuffer(data, np.dtype([("f", "<f4", 12), ("a", "<u2")]), count, 84)
        return rows["f"][:, 3:].reshape(-1, 3, 3)
    words = (line.split() for line in data.decode("utf-8", "replace").splitlines())
    return [[float(x) for x in w[1:4]] for w in words if w and w[0].lower() == "vertex"]


def _obj(file: Path) -> Any:
    points: list[list[float]] = []
    found: list[list[list[float]]] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            points.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(x.split("/")[0]) for x in words[1:]]
            corners = [points[n - 1 if n > 0 else n] for n in numbers]
            fan = itertools.pairwise(corners[1:])
            found += [[corners[0], b, c] for b, c in fan]
    return found


def _gltf(file: Path) -> Any:
    data, inner = file.read_bytes(), b""
    if data[:4] == b"glTF":
        size = struct.unpack_from("<I", data, 12)[0]
        said = json.loads(data[20 : 20 + size])
        inner = data[28 + size :]
    else:
        said = json.loads(data)
    buffers = [_buffer(file, x, inner) for x in said.get("buffers", [])]
    roots = said.get("scenes", [{}])[said.get("scene", 0)].get("nodes")
    roots = range(len(said.get("nodes", []))) if roots is None else roots
    out: list[np.ndarray] = []
    for node in roots:
        _gltf_node(said, buffers, node, np.eye(4), out, 0)
    return np.concatenate(out)


def _buffer(file: Path, buffer: Any, inner: bytes) -> bytes:
    uri = buffer.get("uri")
    if uri is None:
        return inner
    if uri.startswith("data:"):
        return base64.b64decode(uri.partition(",")[2])
    place = (file.parent / uri).resolve()
    if file.parent.resolve() not in place.parents:
        raise ValueError(f"its data {uri!r} is outside of its folder")
    return place.read_bytes()


def _gltf_node(said: Any, buffers: Any, i: int, above: np.ndarray, out: Any, depth: int) -> None:
    if depth > 64:
        raise ValueError("its nodes contain themselves")
    node = said["nodes"][i]
    here = above @ _gltf_pose(node)
    if "mesh" in node:
        for part in said["meshes"][node["mesh"]]["primitives"]:
            if part.get("mode", 4) != 4:
                continue
            points = _accessor(said, buffers, part["attributes"]["POSITION"])
            index = np.arange(len(points))
            if "indices" in part:
                index = _accessor(said, buffers, part["indices"]).ravel().astype(int)
            placed = points @ here[:3, :3].T + here[:3, 3]
            out.append(placed[index].reshape(-1, 3, 3))
    for child in node.get("children", []):
        _gltf_node(said, buffers, child, here, out, depth + 1)


def _gltf_pose(node: Any) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], float).reshape(4, 4).T
    x, y, z, w = node.get("rotation", (0.0, 0.0, 0.0, 1.0))
    R = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    out = np.eye(4)
    out[:3, :3] = np.array(R) * np.array(node.get("scale", (1.0, 1.0, 1.0)))
    out[:3, 3] = node.get("translation", (0.0, 0.0, 0.0))
    return out


def _accessor(said: Any, buffers: Any, i: int) -> np.ndarray:
    accessor = said["accessors"][i]
    view = said["bufferViews"][accessor["bufferView"]]
    kind, width = np.dtype(_COMPONENTS[accessor["componentType"]]), _SIZES[accessor["type"]]
    start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
    stride = view.get("byteStride", kind.itemsize * width)
    data = buffers[view["buffer"]]
    rows = [np.frombuffer(data, kind, width, start + k * stride) for k in range(accessor["count"])]
    return np.array(rows)
