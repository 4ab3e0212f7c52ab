"""Where holonax keeps what it can make again: compiled programs, its own and those of XLA."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder() -> Path | None:
    """HOLONAX_CACHE, or holonax below the user's cache folder; not made yet.

    None where nothing is to be kept (HOLONAX_CACHE=off), and where there is no home: a service
    without one, a container whose user is in no list. Nothing is kept then, and all works.
    """
    asked = os.environ.get("HOLONAX_CACHE", "")
    if asked.lower() == "off":
        return None
    if asked:
        return Path(asked).absolute()
    try:
        above = Path(os.environ.get("XDG_CACHE_HOME") or "")
        above = above if above.is_absolute() else Path.home() / ".cache"
    except (RuntimeError, OSError):
        return None
    return above / "holonax" if above.is_absolute() else None


def writable(folder: Path) -> bool:
    """Whether files can be put into the folder, which is made if need be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def is_private(folder: Path) -> bool:
    """Whether a folder is one that only the user can write to: what is kept there is executed."""
    if not hasattr(os, "getuid"):
        return True  # Windows: folders below the user's own are the user's own
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and is_ours(found)


def is_ours(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to the user, and no other can write to it."""
    others = stat.S_IWGRP | stat.S_IWOTH
    return found.st_uid == os.getuid() and not found.st_mode & others
