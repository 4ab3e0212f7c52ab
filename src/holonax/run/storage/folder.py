"""The folder of a run: a mark that it is ours, a lock that one process uses it, whole files only.

Files are written under a name of their own, forced to the disk and then given theirs, so that each
is there whole or not at all, whenever the process or the machine stops. A folder with anything in
it but no mark belongs to somebody else, and is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..._messages import shown
from .container import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_MARKER = "holonax-run.json"
_MARK = {"what": "the folder of a run of holonax; hx.resume goes on with it", "format": 1}
_LOCK = "holonax-lock"
_SCRATCH = "holonax-new-"
_OURS = re.compile(r"states-\d{6}\.hxs|checkpoint-[12]\.hxc|holonax-(t|q|v|leg)\.npy")
_BEAT = 10.0  # seconds after which a process shows that it lives
_SILENT = 120.0  # and after which one on another machine is taken to have died
# What says that a file system has no locks, not that another process has this one.
_NO_LOCKS = {getattr(errno, x, -1) for x in ("ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK", "EINVAL")}


def checked_path(owner: str, option: str, path: object) -> Path:
    """`path` as that of a directory, or one message about what is wrong with it."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"{owner}: {option}={shown(path)} is not a path. Give the name of a directory."
        )
    name = os.fspath(path)
    if not isinstance(name, str) or not name.strip() or "\0" in name or not _is_encodable(name):
        raise ValueError(
            f"{owner}: {option}={shown(path)} names no directory. Give the name of one that is "
            "empty or does not exist yet."
        )
    return Path(name)


def _is_encodable(name: str) -> bool:
    """Whether the file system can hold a name."""
    try:
        os.fsencode(name)
    except UnicodeError:
        return False
    return True


class Folder:
    """A directory that holds one run, while this process uses it."""

    def __init__(self, path: Path):
        self.path = path
        self._lock: int | None = None
        self._beat = time.monotonic()

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return shown(str(self.path))

    # -- whose it is -----------------------------------------------------------------------

    def claim(self) -> None:
        """Make the directory ours: a new or empty one, or one with our mark. Raises
        `StorageError` where it is somebody else's, in use, or not to be written to."""
        made = False
        try:
            made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            others = [x.name for x in self.path.iterdir() if not _is_passing(x.name)]
            if others and not self._is_marked():
                raise StorageError(
                    f"simulate: the directory {self.shown} holds files that are not of a run "
                    f"({shown(min(others))}), and nothing in it is touched. Give the name of a new "
                    "or an empty directory."
                )
            self.lock("simulate")
            self.mark()
        except OSError as error:
            self.release()
            if made:
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            raise StorageError(
                f"simulate: a run cannot be written to {self.shown}: {reason(error)}. "
                f"{remedy(error)}"
            ) from None

    def mark(self) -> None:
        """Say that the directory is ours, if that is not said."""
        if not self._is_marked():
            self.write(_MARKER, json.dumps(_MARK, indent=1).encode() + b"\n")

    def _is_marked(self) -> bool:
        try:
            return json.loads((self.path / _MARKER).read_bytes()) == _MARK
        except (FileNotFoundError, ValueError):
            return False

    def clear(self) -> None:
        """Delete what an earlier run has left; nothing but files that we name so."""
        for name in sorted(x.name for x in self.path.iterdir()):
            if _OURS.fullmatch(name) or name.startswith(_SCRATCH):
                self._delete(name)
        _settle(self.path)

    def tidy(self) -> None:
        """Delete what a process that was killed had begun to write."""
        for path in self.path.glob(f"{_SCRATCH}*"):
            with contextlib.suppress(OSError):
                self._delete(path.name)

    def _delete(self, name: str) -> None:
        path = self.path / name
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()

    # -- files -----------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as a whole, or leave it as it is and raise OSError."""
        with self.replacing(name) as file:
            file.write(data)

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A file to write to that takes the place of `name` if all goes well."""
        scratch = self.path / f"{_SCRATCH}{uuid.uuid4().hex}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(scratch, flags, 0o666), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, self.path / name)
            _settle(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise

    # -- who uses it -----------------------------------------------------------------------

    def lock(self, owner: str) -> None:
        """Let no other process use the directory until `release`. Raises `StorageError` if one
        does."""
        path = self.path / _LOCK
        said = json.dumps({"pid": os.getpid(), "host": platform.node()}).encode()
        while self._lock is None:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._take(owner, handle)
                # or else the one who had it has deleted the file just then
                if path.exists() and os.path.samestat(os.stat(path), os.fstat(handle)):
                    os.ftruncate(handle, 0)
                    os.lseek(handle, 0, os.SEEK_SET)
                    os.write(handle, said)
                    self._lock = handle
            finally:
                if self._lock is None:
                    os.close(handle)

    def _take(self, owner: str, handle: int) -> None:
        """Lock the file, or say who has."""
        free = _locked(handle)
        try:
            holder = json.loads(os.read(handle, 4096) or b"null")
            pid, host = int(holder["pid"]), str(holder["host"])
        except (ValueError, TypeError, KeyError, OSError):
            pid, host = 0, ""
        here = host == platform.node()
        if free is None:  # no locks on this file system: ask for the process
            free = pid == 0 or not here or not _is_alive(pid)
        # locks of other machines may not be seen here
        silent = time.time() - os.fstat(handle).st_mtime > _SILENT
        if free and (here or not host or silent):
            return
        who = f"process {pid} on {host}" if host else "another process"
        raise StorageError(
            f"{owner}: the directory {self.shown} is in use by {who}. Wait until that has ended or "
            f"give another directory; if it does not run any more, delete {_LOCK} there."
        )

    def beat(self) -> None:
        """Show others, now and then, that this process lives."""
        if time.monotonic() - self._beat > _BEAT:
            self._beat = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(self.path / _LOCK)

    def release(self) -> None:
        """Let others use the directory."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            (self.path / _LOCK).unlink()
        if fcntl is not None:  # a child of this process may have the file open as well
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)
        self._lock = None
        if fcntl is None:  # Windows deletes no file that is open
            with contextlib.suppress(OSError):
                (self.path / _LOCK).unlink()


def _is_passing(name: str) -> bool:
    """Whether a file is one that we make before the mark."""
    return name == _LOCK or name.startswith(_SCRATCH)


def _locked(handle: int) -> bool | None:
    """Whether the lock of a file is ours now; None where there are none."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            # far behind what is written, so that others can read who has it
            os.lseek(handle, 2**20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # pyright: ignore
            os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        os.lseek(handle, 0, os.SEEK_SET)
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _settle(path: Path) -> None:
    """Force the names in a directory to the disk."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """What the operating system says."""
    return error.strerror or str(error)


def remedy(error: OSError) -> str:
    """What to do about it."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", -1), errno.EFBIG):
        return "Free some space there, or give another directory."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Give a directory that you may write to."
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "Give the name of a directory, not of a file."
    return "Give another directory."
