"""A compiler of small programs: what JAX has traced becomes machine code by way of LLVM.

`native(f)` is called like `jax.jit(f)`; docs/compiler.md says what happens to it.
"""

from .interrupt import CompilationInterrupted, compiling
from .native import counts, forget, native
from .structure import dependence

__all__ = ["CompilationInterrupted", "compiling", "counts", "dependence", "forget", "native"]
