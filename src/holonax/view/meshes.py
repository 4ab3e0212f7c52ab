"""Meshes from files, for pictures: STL (text or binary), OBJ, glTF and GLB.

Only triangles are taken: no materials, no textures, and nothing that a file names outside of its
own folder.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

_LARGEST = 200_000_000  # bytes of a file
_TYPES = {5121: "<u1", 5123: "<u2", 5125: "<u4", 5126: "<f4"}


def read_mesh(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """The vertices (n, 3) and triangles (m, 3) of a file."""
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("it is larger than 200 MB")
        data = file.read_bytes()
        reader = {".stl": _stl, ".obj": _obj, ".gltf": _gltf, ".glb": _glb}[file.suffix.lower()]
        vertices, faces = reader(data, file)
        vertices = np.asarray(vertices, dtype=float).reshape(-1, 3)
        faces = np.asarray(faces, dtype=np.int64).reshape(-1, 3)
    except KeyError as error:
        found = f" ({error})" if file.suffix.lower() in (".gltf", ".glb") else ""
        raise ValueError(
            f"mesh {file.name!r} cannot be read{found}. Give an STL, OBJ, glTF or GLB file."
        ) from None
    except (OSError, ValueError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(
            f"mesh {file.name!r} cannot be read: {error}. Look at the path, or save it anew as STL."
        ) from None
    if not faces.size or not np.all(np.isfinite(vertices)):
        raise ValueError(f"mesh {file.name!r} has no triangles, or numbers that are not finite.")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(f"mesh {file.name!r} names vertices that it does not have.")
    return vertices, faces


def _stl(data: bytes, file: Path) -> tuple[Any, Any]:
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
        vertices = np.frombuffer(data, kind, count, 84)["corners"].reshape(-1, 3)
    else:
        words = data.decode("utf-8", "replace").split()
        at = [i for i, word in enumerate(words) if word == "vertex"]
        vertices = np.array([[float(x) for x in words[i + 1 : i + 4]] for i in at])
    return vertices, np.arange(len(vertices) // 3 * 3)


def _obj(data: bytes, file: Path) -> tuple[Any, Any]:
    vertices: list[list[float]] = []
    faces: list[tuple[int, ...]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        kind, *words = line.split() or [""]
        if kind == "v":
            vertices.append([float(x) for x in words[:3]])
        elif kind == "f":
            numbers = [int(x.split("/")[0]) for x in words]
            corners = [x - 1 if x > 0 else len(vertices) + x for x in numbers]
            faces += [(corners[0], *corners[k : k + 2]) for k in range(1, len(corners) - 1)]
    return vertices, faces


def _glb(data: bytes, file: Path) -> tuple[Any, Any]:
    magic, _, _ = struct.unpack_from("<4sII", data)
    if magic != b"glTF":
        raise ValueError("it does not begin as a GLB file does")
    chunks, at = [], 12
    while at + 8 <= len(data):
        length, kind = struct.unpack_from("<I4s", data, at)
        chunks.append((kind, data[at + 8 : at + 8 + length]))
        at += 8 + length
    text = dict(reversed(chunks))[b"JSON"]
    own = dict(reversed(chunks)).get(b"BIN\0", b"")
    return _of_gltf(json.loads(text), file, own)


def _gltf(data: bytes, file: Path) -> tuple[Any, Any]:
    return _of_gltf(json.loads(data), file, b"")


def _of_gltf(said: Any, file: Path, own: bytes) -> tuple[Any, Any]:
    buffers = [_buffer(x, file, own) for x in said["buffers"]]
    vertices, faces, count = [np.zeros((0, 3))], [np.zeros((0, 3), np.int64)], 0

    def numbers(i: int, width: int) -> np.ndarray:
        accessor = said["accessors"][i]
        view = said["bufferViews"][accessor["bufferView"]]
        kind = np.dtype(_TYPES[accessor["componentType"]])
        begin = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        stride = view.get("byteStride") or width * kind.itemsize
        data = buffers[view["buffer"]]
        rows = [(accessor["count"], width), (stride, kind.itemsize)]
        if begin < 0 or begin + stride * (rows[0][0] - 1) + width * kind.itemsize > len(data):
            raise ValueError("it ends too early")
        return np.ndarray(rows[0], kind, data, begin, rows[1])

    def visit(i: int, above: np.ndarray, depth: int) -> None:
        nonlocal count
        if depth > 100:
            raise ValueError("its nodes contain each other")
        node = said["nodes"][i]
        here = above @ _placed(node)
        for part in said["meshes"][node["mesh"]]["primitives"] if "mesh" in node else ():
            if part.get("mode", 4) != 4:
                continue
            points = numbers(part["attributes"]["POSITION"], 3).astype(float)
            corners = np.arange(len(points))
            if "indices" in part:
                corners = numbers(part["indices"], 1)[:, 0].astype(np.int64)
            vertices.append(points @ here[:3, :3].T + here[:3, 3])
            faces.append(corners[: len(corners) // 3 * 3].reshape(-1, 3) + count)
            count += len(points)
        for child in node.get("children", ()):
            visit(child, here, depth + 1)

    scenes = said.get("scenes") or [{"nodes": range(len(said.get("nodes", ())))}]
    for root in scenes[said.get("scene", 0)].get("nodes", ()):
        visit(root, np.eye(4), 0)
    return np.concatenate(vertices), np.concatenate(faces)


def _buffer(said: Any, file: Path, own: bytes) -> bytes:
    uri = said.get("uri")
    if uri is None:
        return own
    if uri.startswith("data:"):
        return base64.b64decode(uri.partition(",")[2])
    beside = file.parent / uri
    if beside.resolve().parent != file.resolve().parent:
        raise ValueError(f"it names {uri!r}, which is not in its folder")
    return beside.read_bytes()


def _placed(node: Any) -> np.ndarray:
    """The matrix of a node."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=float).reshape(4, 4).T
    out = np.eye(4)
    x, y, z, w = node.get("rotation", (0.0, 0.0, 0.0, 1.0))
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    out[:3, :3] = turn * np.array(node.get("scale", (1.0, 1.0, 1.0)))
    out[:3, 3] = node.get("translation", (0.0, 0.0, 0.0))
    return out
