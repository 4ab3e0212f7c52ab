"""A compiler of small programs: what JAX has traced becomes machine code in tenths of a second."""

from .native import counts, native
from .structure import dependence

__all__ = ["counts", "dependence", "native"]
