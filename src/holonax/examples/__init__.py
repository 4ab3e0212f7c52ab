"""Ready mechanisms of the literature, each a `System` with a consistent start.

Every function returns ``(system, start)`` for `holonax.simulate`; its docstring names where the
data come from and what had to be chosen. Parameters of function systems can be changed with
`system.with_parameters(...)`.
"""

from .flexible import lateral_buckling, whirling_rod
from .linkages import (
    bricard,
    n_four_bar,
    slider_crank,
    slider_crank_with_spring,
    spatial_slider_crank,
)
from .machines import car_axis, flyball_governor, two_link_arm
from .pendulums import (
    double_pendulum,
    heavy_top,
    pendulum_with_spring,
    stiff_double_pendulum,
    three_link_pendulum,
)
from .squeezer import andrews

__all__ = [
    "andrews",
    "bricard",
    "car_axis",
    "double_pendulum",
    "flyball_governor",
    "heavy_top",
    "lateral_buckling",
    "n_four_bar",
    "pendulum_with_spring",
    "slider_crank",
    "slider_crank_with_spring",
    "spatial_slider_crank",
    "stiff_double_pendulum",
    "three_link_pendulum",
    "two_link_arm",
    "whirling_rod",
]
