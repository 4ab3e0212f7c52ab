"""What a page shows of a result: bodies and what they are made of, links, joints, arrows, curves.

The scene is plain data: names, numbers, and arrays over the frames as text (`sampling.encoded`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...result.along import beam_motion
from ...result.result import Result
from ...system.mechanism import Mechanism
from ...system.modal import ModalBodySet, amplitudes
from ..skeleton import Traces, skeleton
from ..tubes import BENT, curvature, half_axes
from .parts import body_parts, spatial
from .sampling import Frames, encoded

_number = itertools.count()
_MOST_CURVES = 300

_COLOURS = (
    (0.23, 0.47, 0.78),
    (0.86, 0.45, 0.21),
    (0.28, 0.62, 0.43),
    (0.62, 0.40, 0.70),
    (0.75, 0.63, 0.22),
    (0.25, 0.63, 0.68),
    (0.78, 0.36, 0.47),
    (0.45, 0.52, 0.60),
)


def scene(
    result: Result, *, traces: Traces = (), title: str = "", sliders: Any = ()
) -> dict[str, Any]:
    """The scene of a result; `sliders` as dictionaries (name, value, low, high)."""
    picture = skeleton(result, np.array([0]), traces)  # refuses what has no bodies
    system = result.system
    assert isinstance(system, Mechanism)
    frames = Frames.of(result, system)
    size = float(np.linalg.norm(np.subtract(*picture.span())))
    bodies = [_body(frames, i, name, size) for i, name in enumerate(system.bodies.rigid)]
    arrows = _reactions(result, frames)
    quantities, links = _quantities(result, frames), _links(system, size)
    duration = float(frames.t[-1] - frames.t[0])
    return {
        "id": next(_number),
        "title": title,
        "planar": system.is_planar,
        "message": "" if result.success else result.message,
        "speed": _speed(duration),
        "times": encoded(frames.t, "<f8"),
        "bodies": bodies,
        "ground": [*_ground(system), *(p for x in links for i, p in (x["a"], x["b"]) if i < 0)],
        "links": links,
        "beams": _beams(frames, size),
        "joints": _joints(system),
        "arrows": arrows,
        "largest": max((x["largest"] for x in arrows), default=0.0),
        "trails": _trails(system, traces),
        "quantities": quantities,
        "chosen": _chosen(system, quantities),
        "sliders": list(sliders),
    }


def _speed(duration: float) -> float:
    """Simulated seconds a second: real time for what lasts some seconds, else some ten seconds."""
    if not duration > 0 or 2.0 <= duration <= 60.0:
        return 1.0
    exact = duration / 8.0
    digit = 10.0 ** np.floor(np.log10(exact))
    return float(digit * min((1, 2, 5), key=lambda x: abs(np.log(x * digit / exact))))


def _body(frames: Frames, i: int, name: str, size: float) -> dict[str, Any]:
    system = frames.system
    if any(i in drawn for drawn in system.drawn_through().values()):
        parts, bounds = [], [np.zeros(3)]  # a node: the beam is drawn through it
    else:
        parts, bounds = body_parts(system, i, size)
    # planar bodies lie one above the other, so that each can be seen
    height = 0.02 * size * (i % 6) if system.is_planar else 0.0
    return {
        "name": name,
        "colour": _COLOURS[i % len(_COLOURS)],
        "poses": encoded(frames.poses(name, height)),
        "parts": parts,
        "middle": bounds[0].tolist(),
        "corners": [p.tolist() for p in bounds],
    }


def _beams(frames: Frames, size: float) -> list[dict[str, Any]]:
    """Beams through their nodes, coloured by how much they are bent."""
    out = []
    for beam in frames.system.beams:
        motion = beam_motion(frames.system, beam.name, frames.q, frames.v)
        bent = curvature(motion)
        out.append(
            {
                "name": beam.name,
                "nodes": list(range(beam.first, beam.first + beam.nodes)),
                "radius": float(np.mean(half_axes(motion.element, size))),
                "shows": BENT,
                "values": encoded(bent),
                "largest": float(np.max(bent, initial=0.0)),
            }
        )
    return [*out, *_with_modes(frames, size)]


def _with_modes(frames: Frames, size: float) -> list[dict[str, Any]]:
    """Bodies with modes through their markers, coloured by how far these are from rest."""
    out = []
    bodies = frames.system.bodies
    for body in bodies.flexible if isinstance(bodies, ModalBodySet) else ():
        if len(body.markers) < 2:
            continue
        eta = amplitudes(bodies, body.name, frames.q, bodies.frame.nq)
        assert eta is not None
        moved = np.einsum("mak,nk->nma", np.asarray(body.shapes), eta)
        far = np.linalg.norm(moved, axis=-1)
        far = (far[:, 1:] + far[:, :-1]) / 2
        out.append(
            {
                "name": body.name,
                "nodes": list(body.markers),
                "radius": 0.008 * size,
                "shows": "deflection [m]",
                "values": encoded(far),
                "largest": float(np.max(far, initial=0.0)),
            }
        )
    return out


def _joints(system: Mechanism) -> list[dict[str, Any]]:
    out = []
    for joint, (first, _) in system.markers:
        point, _, axes = system.place(joint)
        axis = None if system.is_planar else axes[:, -1].tolist()
        out.append({"name": joint, "body": first - 1, "at": spatial(point).tolist(), "axis": axis})
    return out


def _links(system: Mechanism, size: float) -> list[dict[str, Any]]:
    """Springs, dampers and rods: what has a length between two points."""
    out = []
    items = {} if system.origin is None else {x.name: x for x in system.origin.items}
    measured: dict[str, Any] = dict(system.measured())
    for name, found in measured.items():
        thing, _, what = name.rpartition(".")
        item = items.get(thing)
        if what != "length" or item is None:
            continue
        kind = "rod"
        if getattr(item, "stiffness", None) is not None or hasattr(item, "damping"):
            springs = np.any(np.asarray(getattr(item, "stiffness", 0.0) or 0.0) != 0)
            kind = "spring" if springs or callable(getattr(item, "stiffness", None)) else "damper"
        ends = [
            [node - 1, (spatial(list(found.numbers[key])) + _centre(system, node)).tolist()]
            for node, key in zip(found.nodes, ("p", "q"), strict=True)
        ]
        radius = (0.025 if kind != "rod" else 0.008) * size
        out.append({"name": thing, "kind": kind, "a": ends[0], "b": ends[1], "radius": radius})
    return out


def _centre(system: Mechanism, node: int) -> np.ndarray:
    """The centre of mass of a body by its frame's number, in its coordinates."""
    if node == 0 or system.bodies.com is None:
        return np.zeros(3)
    return spatial(system.bodies.com[node - 1])


def _ground(system: Mechanism) -> list[list[float]]:
    out = []
    for joint, ends in system.markers:
        points = system.place(joint)[:2]
        out += [spatial(p).tolist() for end, p in zip(ends, points, strict=True) if end == 0]
    return out


def _reactions(result: Result, frames: Frames) -> list[dict[str, Any]]:
    out = []
    for joint, (_, second) in frames.system.markers:
        force = result.reaction(joint).force
        force = np.pad(force, ((0, 0), (0, 3 - force.shape[1])))
        if force.shape[0] != result.t.size or not np.all(np.isfinite(force)):
            continue
        out.append(
            {
                "name": joint,
                "kind": "reaction",
                "body": second - 1,
                "at": spatial(frames.system.place(joint)[1]).tolist(),
                "values": encoded(frames.at_frames(force)),
                "largest": float(np.max(np.linalg.norm(force, axis=1), initial=0.0)),
            }
        )
    return out


def _trails(system: Mechanism, traces: Traces) -> list[dict[str, Any]]:
    pairs = traces.values() if isinstance(traces, Mapping) else traces
    return [
        {"body": system.number_of(body), "at": spatial(point).tolist(), "colour": [0.7, 0.0, 0.37]}
        for body, point in pairs
    ]


def _quantities(result: Result, frames: Frames) -> list[dict[str, str]]:
    """Curves at the frames, of every number by name; of large mechanisms the first."""
    names = [x for x in result.quantities() if "acceleration" not in x and "quaternion" not in x]
    out = []
    for name in names:
        values = np.asarray(result.quantity(name))
        unit = result.quantities()[name]
        columns = {name: values}
        if values.ndim == 2:
            columns = {f"{name}.{x}": values[:, k] for k, x in enumerate("xyz"[: values.shape[1]])}
        for full, column in columns.items():
            if column.shape == result.t.shape and np.all(np.isfinite(column)):
                curve = encoded(frames.at_frames(column), "<f8")
                out.append({"name": full, "unit": unit, "values": curve})
        if len(out) >= _MOST_CURVES:
            break
    return out


def _chosen(system: Mechanism, quantities: list[dict[str, str]]) -> list[str]:
    """The curves that are shown at first: what joints and springs do, else positions; energy."""
    names, bodies = [x["name"] for x in quantities], system.bodies.names
    wanted = [x for x in names if x.endswith((".angle", ".slide", ".length"))]
    wanted = [x for x in wanted if x.rpartition(".")[0] not in bodies]
    wanted = wanted or [x for x in names if x.endswith((".position.x", ".position.y"))]
    return [*wanted[:4], *(x for x in names if x == "energy.total")]
