"""One page that shows an ensemble: some of its runs as ghosts, bands over time, histograms."""

from __future__ import annotations

import html
import json
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._arguments import checked_call, folder
from .._messages import shown
from .._numbers import count
from ..many.outcomes import Band, Ensemble
from .skeleton import skeleton

_OWNER = "ensemble_page"
_FRAMES = 121  # of the ghosts
_BINS = 40
_COLOURS = ("#3b78c7", "#db7335", "#479e6e", "#9e66b3", "#bfa138", "#40a1ad", "#c75c78", "#738599")
# What a spatial mechanism is looked at along: from the right, the front and above.
_VIEW = np.array([[0.82, -0.57, 0.0], [0.22, 0.32, 0.92]])


@checked_call
def ensemble_page(
    result: Ensemble, path: str | Path, *, ghosts: int = 12, title: str = "Many runs"
) -> Path:
    """Write a page of an ensemble to `path`, an HTML file, and return that path.

    It shows some runs of the mechanism together, as ghosts that move; a quantity of all runs over
    time, by bands; and how many runs have which value of it. Quantities are the coordinates, where
    states are kept at times (``times=``); what was asked by `reduce`; and when runs ended. The file
    is complete and asks for nothing outside.

    **Arguments:**

    - `ghosts`: so many runs are done once more, to be seen; 0 for none, as for a system of
      functions.
    - `title`: a line below the picture.
    """
    if not isinstance(result, Ensemble):
        raise TypeError(
            f"{_OWNER}: {shown(result)} is not an ensemble. Give what hx.ensemble returns; a "
            "single run is shown by hx.page."
        )
    if not isinstance(title, str):
        raise TypeError(f"{_OWNER}: title={shown(title)} must be a text.")
    target = folder(_OWNER, "path", path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{_OWNER}: {target.name!r} is not a page. Give a path ending in .html.")
    wanted = count(_OWNER, "ghosts", ghosts, least=0, most=200)
    items = _items(result)
    if not items:
        raise ValueError(
            f"{_OWNER}: there is nothing to show: no states at times, nothing reduced. Give "
            "hx.ensemble times=..., or reduce={...}."
        )
    begin = float(result.t[0]) if result.q is not None and result.q.ndim == 3 else 0.0
    times = np.linspace(begin, result.t_end, _FRAMES)
    runs = [_ghost(result, int(k), times) for k in _chosen(result, wanted)]
    points = [np.reshape(line, (-1, 2)) for run in runs for line in run]
    span = np.nan_to_num(_span(points)) if points else np.array([0.0, 0.0, 1.0, 1.0])
    said = {
        "times": times.tolist(),
        "items": items,
        "ghosts": [[_plain(line) for line in run] for run in runs],
        "span": span.tolist(),
        "colours": _COLOURS,
    }
    data = json.dumps(said, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    text = files("holonax.view").joinpath("browser", "ensemble.html").read_text(encoding="utf-8")
    text = text.replace("{{title}}", html.escape(title)).replace("{{data}}", data)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def _chosen(result: Ensemble, wanted: int) -> np.ndarray:
    """Runs that came to their end, evenly over their numbers."""
    good = np.flatnonzero(result.success)
    if not good.size:
        return good
    return good[np.unique(np.linspace(0, good.size - 1, min(wanted, good.size)).astype(int))]


def _ghost(result: Ensemble, number: int, times: np.ndarray) -> list[np.ndarray]:
    """The lines of each body of one run (frames, points, 2), which stays where it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each start is moved onto its own constraints
        run = result.rerun(number)
    index = np.clip(np.searchsorted(run.t, times), 0, len(run.t) - 1)
    return [_flat(stroke.points, stroke.closed) for stroke in skeleton(run, index).strokes]


def _flat(points: np.ndarray, closed: bool) -> np.ndarray:
    points = np.concatenate([points, points[:, :1]], axis=1) if closed else points
    return points if points.shape[-1] == 2 else points @ _VIEW.T


def _span(points: list[np.ndarray]) -> np.ndarray:
    every = np.concatenate(points)
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    room = 0.05 * float(np.max(high - low)) or 1.0
    return np.concatenate([low - room, high + room])


def _items(result: Ensemble) -> list[dict[str, Any]]:
    """What can be chosen to be seen."""
    out = []
    if result.q is not None and result.q.ndim == 3:
        names = result.names or [f"q[{k}]" for k in range(result.q.shape[2])]
        out += [_kept(name, result.t, result.q[:, :, k]) for k, name in enumerate(names)]
    for name, x in result.reduced.items():
        if isinstance(x, Band):
            # the times of bands are those of the runs, kept or not
            if x.mean.ndim == 1:
                out.append(_band(name, result.grid, x))
        elif isinstance(x, np.ndarray) and x.ndim == 1:
            out.append({"name": name, "bands": None, "histogram": _histogram(x[:, None], None)})
    if result.events:
        ended = _histogram(result.ended[:, None], None)
        out.append({"name": "end of the run [s]", "bands": None, "histogram": ended})
    return out


def _kept(name: str, t: np.ndarray, x: np.ndarray) -> dict[str, Any]:
    """A quantity that is known of each run at each time."""
    there = np.isfinite(x).any(axis=0)
    levels = np.full((5, len(t)), np.nan)
    levels[:, there] = np.nanquantile(x[:, there], [0.0, 0.16, 0.5, 0.84, 1.0], axis=0)
    low, inner_low, middle, inner_high, high = map(_plain, levels)
    return {
        "name": name,
        "bands": {
            "t": t.tolist(),
            "low": low,
            "inner_low": inner_low,
            "middle": middle,
            "inner_high": inner_high,
            "high": high,
            "said": "all runs, two thirds of them, the median",
        },
        "histogram": _histogram(x, t),
    }


def _band(name: str, t: np.ndarray, band: Band) -> dict[str, Any]:
    return {
        "name": name,
        "bands": {
            "t": t.tolist(),
            "low": _plain(band.smallest),
            "inner_low": _plain(band.mean - band.std),
            "middle": _plain(band.mean),
            "inner_high": _plain(band.mean + band.std),
            "high": _plain(band.largest),
            "said": "all runs, one standard deviation, the mean",
        },
        "histogram": None,
    }


def _histogram(x: np.ndarray, t: np.ndarray | None) -> dict[str, Any]:
    """How many runs there are in each of some bins, at each of the times."""
    columns = [column[np.isfinite(column)] for column in x.T]
    made = [np.histogram(column if column.size else np.zeros(1), _BINS) for column in columns]
    return {
        "edges": [edges.tolist() for _, edges in made],
        "counts": [
            (counts if column.size else 0 * counts).tolist()
            for column, (counts, _) in zip(columns, made, strict=True)
        ],
        "t": None if t is None else t.tolist(),
    }


def _plain(x: np.ndarray) -> Any:
    """Numbers for JSON; what is not finite is null."""
    x = np.asarray(x, dtype=float)
    rounded = np.round(x, 6) if x.ndim > 1 else x
    return np.where(np.isfinite(rounded), rounded.astype(object), cast(Any, None)).tolist()
