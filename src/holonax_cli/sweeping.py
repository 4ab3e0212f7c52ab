"""Sweeps of many runs at once into a dataset that grows, on this machine or on a cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holonax as hx

from .running import Opened
from .studying import values_of

_RTOL = 1e-6  # where neither options nor the file say how to step
_DESIGNS = {"sobol": hx.many.sobol, "latin": hx.many.latin_hypercube}


@dataclass(frozen=True)
class Sampling:
    """How points are chosen: all combinations, or so many samples by a design with a seed."""

    samples: int | None
    design: str
    seed: int

    def points(self, vary: list[str]) -> Any:
        """The points of NAME=FIRST:LAST:COUNT; samples use the first and the last value only."""
        if self.samples is None:
            return hx.many.grid(dict(values_of(text) for text in vary))
        if self.design not in _DESIGNS:
            known = ", ".join(_DESIGNS)
            raise ValueError(f"--design {self.design!r} is not known. Choose one of {known}.")
        spans = {}
        for text in vary:
            whole = text if text.count(":") != 1 else f"{text}:2"
            name, values = values_of(whole)
            spans[name] = (min(values), max(values))
        return _DESIGNS[self.design](spans, self.samples, seed=self.seed)


def swept(
    opened: Opened,
    vary: list[str],
    sampling: Sampling,
    quantities: list[str],
    t_end: float | None,
    options: dict[str, Any],
    out: Path,
    executor: Any,
    quiet: bool,
) -> int:
    """Runs at many points into the dataset `out`; what is there already is not run again."""
    observed = {}
    for name in quantities:
        if "=" in name:
            raise ValueError(
                f"--quantity {name!r}: a sweep into a dataset keeps quantities by name; write an "
                "expression as an output of the model, or sweep into a .csv."
            )
        observed |= {
            name: hx.many.Last(name),
            f"min {name}": hx.many.Smallest(name),
            f"max {name}": hx.many.Largest(name),
        }
    if opened.file is not None and opened.file.events:
        raise ValueError("sweep: a model with events is swept into a table. Give --out runs.csv.")
    points = sampling.points(vary)
    given = {k: x for k, x in _steps(opened, options).items() if k != "method"}
    if "dt" not in given and "rtol" not in given:
        given["rtol"] = _RTOL
    found = hx.sweep(
        *(opened.built(), points),
        path=out,
        executor=executor,
        progress=_told if not quiet and sys.stderr.isatty() else False,
        t_end=opened.end(t_end),
        save="none" if observed else "end",
        reduce=observed or None,
        **given,
    )
    if not quiet:
        print(found)
    return 0 if found.complete and bool(found.success.all()) else 1


def _steps(opened: Opened, options: dict[str, Any]) -> dict[str, Any]:
    """As given, or as the file says."""
    if options or opened.file is None:
        return {k: x for k, x in options.items() if x is not None}
    kept = ("dt", "rtol", "atol", "formulation", "integrator")
    return {k: x for k, x in opened.file.run.items() if k in kept}


def _told(now: Any) -> None:
    print(f"\r{now}   ", end="", file=sys.stderr, flush=True)
