"""The bytes of a file: words, numbers and arrays, none of which can be changed unnoticed.

A file is one line of text (what it is, and the SHA-256 of all that follows), one line of JSON, and
the bytes of its arrays one after the other, whose types and shapes stand in the JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_MAGIC = "holonax run 1 "
_KINDS = "biufc"  # of numpy's types: truth values, whole, real and complex numbers


class StorageError(RuntimeError):
    """A run that cannot be written to its folder, read from it, or resumed."""


class Spoilt(StorageError):
    """A file that is not what was written."""


class Content(NamedTuple):
    """What is in a file, and the checksum that it begins with."""

    said: Any
    arrays: list[np.ndarray]
    digest: str


def packed(kind: str, said: object, arrays: Sequence[np.ndarray]) -> tuple[bytes, str]:
    """A file of some `kind` as bytes, and its checksum."""
    arrays = [np.asarray(x) for x in arrays]
    layout = [[x.dtype.str, list(x.shape)] for x in arrays]
    line = json.dumps([said, layout], allow_nan=False, separators=(",", ":")).encode() + b"\n"
    body = b"".join([line, *(x.tobytes() for x in arrays)])
    digest = _sum(kind, body)
    return f"{_MAGIC}{digest}\n".encode() + body, digest


def unpacked(kind: str, data: bytes) -> Content:
    """What was packed; raises `Spoilt` if a single bit is another one."""
    head, _, body = data.partition(b"\n")
    magic, digest = head[: len(_MAGIC)], head[len(_MAGIC) :].decode("ascii", "replace")
    if magic != _MAGIC.encode():
        raise Spoilt("it does not begin as a file of holonax does")
    if digest != _sum(kind, body):
        raise Spoilt("its checksum does not belong to its content")
    line, _, rest = body.partition(b"\n")
    try:
        said, layout = json.loads(line)
        arrays, at = [], 0
        for name, shape in layout:
            dtype = np.dtype(name)
            count = math.prod(shape)
            if dtype.kind not in _KINDS or min(shape, default=0) < 0:
                raise ValueError(name)
            arrays.append(np.frombuffer(rest, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
        if at != len(rest):
            raise ValueError("length")
    except (ValueError, TypeError, RecursionError) as error:
        raise Spoilt(f"it was not written by holonax ({error})") from None
    return Content(said, arrays, digest)


def _sum(kind: str, body: bytes) -> str:
    """The checksum; with the kind in it, one kind of file is not taken for another."""
    return hashlib.sha256(kind.encode() + b"\n" + body).hexdigest()
