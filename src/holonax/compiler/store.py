"""Compiled programs on disk, each in a file of its own that is checked before it is used.

A file is one line of text (what it is, and the checksum of all that follows), one line of JSON (the
layout of its arrays), and object code. The folder has to belong to the user alone: object code is
executed, so nobody else may be able to put some there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from .._cache import cache_folder, is_ours, is_private, writable

_MAGIC = b"holonax program 1 "
_MOST = 512 * 2**20  # bytes that are kept; the oldest go first
_SCRATCH = "new-"  # how files begin that are being written
_ABANDONED = 3600.0  # seconds after which nobody is writing one any more


@cache
def folder() -> Path | None:
    """Where programs are kept: HOLONAX_CACHE, or holonax below the user's cache folder; None where
    nothing is to be kept, or no folder is to be trusted."""
    above = cache_folder()
    if above is None or not writable(above / "programs"):
        return None
    return above / "programs" if is_private(above / "programs") else None


def _content(path: Path) -> bytes:
    """What is in a file, which has to be the user's own even if its folder was exchanged since."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        if hasattr(os, "getuid") and not is_ours(os.fstat(handle)):
            raise PermissionError(path)
        return file.read()


def read(key: str) -> tuple[dict[str, Any], bytes] | None:
    """(what was said of it, object code) of a program, if it is there and whole."""
    path = _path(key)
    if path is None:
        return None
    try:
        content = _content(path)
    except OSError:
        return None
    head, _, body = content.partition(b"\n")
    if head != _MAGIC + _sum(key, body):
        with contextlib.suppress(OSError):
            path.unlink()  # spoilt: it is made again
        return None
    said, _, code = body.partition(b"\n")  # JSON has no line breaks
    with contextlib.suppress(OSError):
        os.utime(path)
    return json.loads(said), code


def write(key: str, said: dict[str, Any], code: bytes) -> None:
    """Keep a program; a disk that is full, or not to be written to, keeps nothing."""
    path = _path(key)
    if path is None:
        return
    body = json.dumps(said).encode() + b"\n" + code
    scratch = None
    try:
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=_SCRATCH)
        with open(handle, "wb") as file:
            file.write(_MAGIC + _sum(key, body) + b"\n" + body)
        os.replace(scratch, path)
        scratch = None
        _forget_oldest(path.parent)
    except OSError:
        pass
    finally:
        if scratch is not None:
            with contextlib.suppress(OSError):
                os.unlink(scratch)


def _path(key: str) -> Path | None:
    where = folder()
    return None if where is None else where / f"{key}.hxp"


def _sum(key: str, body: bytes) -> bytes:
    """The checksum; with the key in it, a file under another's name is refused too."""
    return hashlib.sha256(key.encode() + body).hexdigest().encode()


_written = 0


def _forget_oldest(where: Path) -> None:
    """Now and then, delete what was not used for longest, and what was never finished."""
    global _written
    _written += 1
    if _written % 64 != 1:
        return
    for path in where.glob(f"{_SCRATCH}*"):
        if time.time() - path.stat().st_mtime > _ABANDONED:
            path.unlink(missing_ok=True)
    files = [(x.stat().st_mtime, x.stat().st_size, x) for x in where.glob("*.hxp")]
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MOST:
            return
        path.unlink(missing_ok=True)
        total -= size
