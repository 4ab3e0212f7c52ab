"""Ready mechanisms of the literature, each a `System` with a consistent start.

Every function returns ``(system, start)`` for `holonax.simulate`; its docstring names where the
data come from and what had to be chosen. Parameters of function systems can be changed with
`system.with_parameters(...)`; of those that are models, `model_of` gives the model.
"""

from pathlib import Path
from typing import Any

from .._arguments import checked_call
from .._messages import listed, shown
from ..model import Model
from .describing import MODELS, RUNS
from .flexible import (
    cable_in_wind,
    cantilever,
    flexible_four_bar,
    flexible_slider_crank,
    lateral_buckling,
    rotor,
    whirling_rod,
)
from .linkages import (
    bricard,
    four_bar,
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
from .wheelset import wheelset
from .with_modes import modal_slider_crank

__all__ = [
    "andrews",
    "bricard",
    "cable_in_wind",
    "cantilever",
    "car_axis",
    "double_pendulum",
    "file_text",
    "flexible_four_bar",
    "flexible_slider_crank",
    "flyball_governor",
    "four_bar",
    "heavy_top",
    "lateral_buckling",
    "modal_slider_crank",
    "model_of",
    "run_of",
    "n_four_bar",
    "pendulum_with_spring",
    "rotor",
    "slider_crank",
    "slider_crank_with_spring",
    "spatial_slider_crank",
    "stiff_double_pendulum",
    "three_link_pendulum",
    "two_link_arm",
    "whirling_rod",
    "wheelset",
]

_TOOLS = {"file_text", "model_of", "run_of"}


def _check_name(owner: str, name: object) -> None:
    if not isinstance(name, str) or name not in __all__ or name in _TOOLS:
        known = listed(sorted({*__all__} - _TOOLS), 40)
        raise ValueError(f"{owner}: there is no mechanism {shown(name)}. There are {known}.")


@checked_call
def model_of(name: str) -> tuple[Model, dict[str, Any]]:
    """The `Model` of a ready mechanism, and what `Model.build` is given for its start.

    Those that are written as functions of their coordinates have none.
    """
    _check_name("model_of", name)
    if name not in MODELS:
        raise ValueError(
            f"model_of: {name!r} is written as Python functions and has no model. Those that have "
            f"one are {listed(sorted(MODELS), 40)}."
        )
    return MODELS[name]()


@checked_call
def run_of(name: str) -> dict[str, Any]:
    """How a ready mechanism is run where nothing else is asked for, as a model file says it:
    `t_end` [s], and a method where the usual choice is not to the point, as for thin beams."""
    _check_name("run_of", name)
    return {"t_end": 10.0, **RUNS.get(name, {})}


@checked_call
def file_text(name: str) -> str | None:
    """The text of the model file of a ready mechanism that was written by hand; None for others,
    which `Model.save` writes."""
    model_of(name)
    path = Path(__file__).parent / "files" / f"{name}.toml"
    return path.read_text(encoding="utf-8") if path.exists() else None
