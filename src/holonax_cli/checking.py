"""What a model is: its bodies and masses, its mobility, and the graph of its joints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import holonax as hx

from .running import Opened


def checked(opened: Opened, png: Path | None, quiet: bool, as_json: bool) -> int:
    """Tell what a model is."""
    system, start = opened.built()
    found = hx.diagnose(system, start.q, start.t)
    model = None if opened.file is None else opened.file.model
    if png is not None:
        _draw(opened.name, _edges(model), png)
    if as_json:
        print(json.dumps(_described(found, model)))
    elif not quiet:
        print(f"{opened.name}: {found}")
        if model is not None:
            print("\n".join(["", *_masses(model), "", *graph(model)]))
        if png is not None:
            print(png)
    return 0


def _bodies(model: hx.Model) -> list[Any]:
    return [x for x in model.items.values() if x.type in ("body", "planar_body")]


def _masses(model: hx.Model) -> list[str]:
    bodies = _bodies(model)
    width = max((len(x.name) for x in bodies), default=4)
    lines = [f"{'body':{width}}  {'mass [kg]':>12}  inertia [kg m^2]"]
    for body in bodies:
        inertia = body.inertia
        if not isinstance(inertia, str):
            inertia = np.array2string(np.asarray(inertia), precision=5, separator=", ")
        lines.append(f"{body.name:{width}}  {body.mass:12.6g}  {' '.join(inertia.split())}")
    lines.append(f"{'all':{width}}  {sum(x.mass for x in bodies):12.6g}")
    return lines


def _edges(model: hx.Model | None) -> list[tuple[str, str, str, str]]:
    """(first body, second body, name, what it is) of all that connects bodies."""
    out = []
    for item in () if model is None else model.items.values():
        ends = [getattr(item, x, None) for x in ("a", "b")]
        if item.type in ("body", "planar_body", "output") or not all(
            isinstance(x, str) for x in ends
        ):
            continue
        out.append((ends[0], ends[1], item.name, item.noun))
    return out


def graph(model: hx.Model) -> list[str]:
    """The joint graph as a tree from the ground on, loops closed by a last line each."""
    edges = _edges(model)
    lines, seen, done = ["ground"], {"ground"}, set()

    def visit(body: str, indent: str) -> None:
        here = [e for e in edges if body in e[:2] and e[2] not in done]
        for first, second, name, what in here:
            if name in done:
                continue
            done.add(name)
            other = second if first == body else first
            back = " (closes a loop)" if other in seen else ""
            lines.append(f"{indent}+- {name} ({what}) -> {other}{back}")
            if other not in seen:
                seen.add(other)
                visit(other, indent + "|  ")

    visit("ground", "")
    for body in _bodies(model):
        if body.name not in seen:
            seen.add(body.name)
            lines.append(f"{body.name} (not connected to the ground)")
            visit(body.name, "")
    return lines


def _described(found: hx.Diagnosis, model: hx.Model | None) -> dict[str, Any]:
    bodies = [] if model is None else _bodies(model)
    return {
        "mobility": found.mobility,
        "coordinates": found.coordinates,
        "rows": found.rows,
        "rank": found.rank,
        "redundant": found.redundant,
        "shared_by": list(found.shared_by),
        "singular": found.singular,
        "masses": {x.name: x.mass for x in bodies},
        "joints": [list(edge) for edge in _edges(model)],
    }


def _draw(title: str, edges: list[tuple[str, str, str, str]], path: Path) -> None:
    """The graph on a circle, bodies as dots and joints as lines."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(["ground", *(x for edge in edges for x in edge[:2])]))
    angles = 2 * np.pi * np.arange(len(names)) / max(len(names), 1) + np.pi / 2
    at = {name: (np.cos(x), np.sin(x)) for name, x in zip(names, angles, strict=True)}
    figure, axes = pyplot.subplots(figsize=(7, 7))
    for i, (first, second, name, what) in enumerate(edges):
        (x1, y1), (x2, y2) = at[first], at[second]
        twins = [e for e in edges[:i] if {*e[:2]} == {first, second}]
        axes.plot([x1, x2], [y1, y2], color="0.6", zorder=1)
        shift = 0.5 + 0.12 * len(twins)
        axes.text(x1 + shift * (x2 - x1), y1 + shift * (y2 - y1), f"{name}\n{what}", fontsize=8)
    for name, (x, y) in at.items():
        axes.plot(x, y, "s" if name == "ground" else "o", color="tab:blue", zorder=2)
        axes.text(1.12 * x, 1.12 * y, name, ha="center", va="center", weight="bold")
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), title=title)
    axes.set_axis_off()
    figure.savefig(path)
    pyplot.close(figure)
