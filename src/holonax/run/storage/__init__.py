"""Runs on disk: saved states in files of their own, and checkpoints to go on from.

Nothing that is read is executed: files hold numbers and the names of classes of this package
(`record.py`), under checksums (`container.py`), in folders that carry a mark and are used by one
process at a time (`folder.py`). Functions are not in files; they are given again, and compared by
the programs that they trace to (`identity.py`).
"""

from .checkpoint import Storage as Storage
from .container import StorageError as StorageError
from .folder import Folder as Folder
from .folder import checked_path as checked_path
from .loading import load as load
