"""Models and results from and to other forms."""

from .from_sympy import from_sympy

__all__ = ["from_sympy"]
