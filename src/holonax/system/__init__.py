"""What the mathematics sees: pure functions of (q, v, t)."""

from .base import ConstraintFactor, System
from .function import FunctionSystem

__all__ = ["ConstraintFactor", "FunctionSystem", "System"]
