"""Ready mechanisms of the literature, each a `System` with a consistent start.

Every function returns ``(system, start)`` for `holonax.simulate`; its docstring names where the
data come from and what had to be chosen. Parameters of function systems can be changed with
`system.with_parameters(...)`.
"""

from .linkages import slider_crank
from .machines import two_link_arm
from .pendulums import double_pendulum, pendulum_with_spring, three_link_pendulum
from .squeezer import andrews

__all__ = [
    "andrews",
    "double_pendulum",
    "pendulum_with_spring",
    "slider_crank",
    "three_link_pendulum",
    "two_link_arm",
]
