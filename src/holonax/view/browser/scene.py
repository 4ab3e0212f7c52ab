"""What a page shows of a result: bodies and what they are made of, links, joints, arrows, curves.

The scene is plain data: names, numbers, and arrays over the frames as text (`frames.encoded`).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...result.result import Result
from ...system.mechanism import Mechanism
from ..skeleton import Traces, skeleton
from .frames import Frames, encoded

_number = itertools.count()

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
    bodies = [_body(frames, i, name, size) for i, name in enumerate(system.bodies.names)]
    arrows = _reactions(result, frames)
    duration = float(frames.t[-1] - frames.t[0])
    return {
        "id": next(_number),
        "title": title,
        "planar": system.is_planar,
        "message": "" if result.success else result.message,
        "speed": _speed(duration),
        "times": encoded(frames.t, "<f8"),
        "bodies": bodies,
        "ground": _ground(system),
        "links": [],
        "beams": [],
        "joints": _joints(system),
        "arrows": arrows,
        "largest": max((x["largest"] for x in arrows), default=0.0),
        "trails": _trails(system, traces),
        "quantities": _quantities(frames),
        "chosen": [],
        "sliders": list(sliders),
    }


def _speed(duration: float) -> float:
    """Simulated seconds a second: real time for what lasts some seconds, else some ten seconds."""
    if not duration > 0 or 2.0 <= duration <= 60.0:
        return 1.0
    exact = duration / 8.0
    digit = 10.0 ** np.floor(np.log10(exact))
    return float(digit * min((1, 2, 5), key=lambda x: abs(np.log(x * digit / exact))))


def _spatial(point: Any) -> list[float]:
    """A point of the plane or of space, as three numbers."""
    point = np.asarray(point, dtype=float).ravel()
    return [float(x) for x in np.pad(point, (0, 3 - point.size))]


def _body(frames: Frames, i: int, name: str, size: float) -> dict[str, Any]:
    system = frames.system
    points = attached_points(system, i + 1)
    centre = np.zeros(3) if system.bodies.com is None else np.array(_spatial(system.bodies.com[i]))
    parts = _through(points, centre, size, system.is_planar)
    # planar bodies lie one above the other, so that each can be seen
    height = 0.018 * size * (i % 5) if system.is_planar else 0.0
    return {
        "name": name,
        "colour": _COLOURS[i % len(_COLOURS)],
        "poses": encoded(frames.poses(name, height)),
        "parts": parts,
        "middle": centre.tolist(),
        "corners": [centre.tolist(), *(p.tolist() for p in points)],
    }


def attached_points(system: Mechanism, frame: int) -> list[np.ndarray]:
    """The points of a body, by its frame's number, where joints attach."""
    found: list[np.ndarray] = []
    for joint, ends in system.markers:
        for end, point in zip(ends, system.place(joint)[:2], strict=True):
            here = np.array(_spatial(point))
            if end == frame and not any(np.allclose(here, other) for other in found):
                found.append(here)
    return found


def _through(
    points: list[np.ndarray], centre: np.ndarray, size: float, planar: bool
) -> list[dict[str, Any]]:
    """Bars from the centre of mass to where joints attach; a ball where there is nothing."""
    radius = 0.012 * size
    if len(points) == 2:
        return [_bar(*points, radius, planar)]
    ends = [p for p in points if np.linalg.norm(p - centre) > 1e-9 * size]
    if not ends:
        return [_part("sphere", (2.5 * radius,) * 3, centre)]
    return [_bar(centre, p, radius, planar) for p in ends]


def _bar(a: np.ndarray, b: np.ndarray, radius: float, planar: bool) -> dict[str, Any]:
    length = float(np.linalg.norm(b - a))
    size = (length + 2 * radius, 2 * radius, 1.2 * radius) if planar else (radius, radius, length)
    axis = (b - a) / max(length, 1e-300)
    first = np.array([1.0, 0.0, 0.0]) if planar else np.array([0.0, 0.0, 1.0])
    return _part("box" if planar else "cylinder", size, (a + b) / 2, _between(first, axis))


def _between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion of the shortest turn that takes the direction a to b."""
    w = 1.0 + a @ b
    if w < 1e-12:  # opposite: half a turn about any direction across
        across = np.cross(a, [0.0, 0.0, 1.0] if abs(a[2]) < 0.9 else [1.0, 0.0, 0.0])
        return np.array([0.0, *(across / np.linalg.norm(across))])
    turn = np.array([w, *np.cross(a, b)])
    return turn / np.linalg.norm(turn)


def _part(kind: str, size: Any, at: Any, turn: Any = (1, 0, 0, 0), **more: Any) -> dict[str, Any]:
    numbers = lambda x: [float(y) for y in x]  # noqa: E731
    return {"kind": kind, "size": numbers(size), "at": numbers(at), "turn": numbers(turn), **more}


def _joints(system: Mechanism) -> list[dict[str, Any]]:
    out = []
    for joint, (_, second) in system.markers:
        first, point, axes = system.place(joint)
        del first
        axis = None if system.is_planar else _axis_of(system, joint, axes)
        out.append({"name": joint, "body": second - 1, "at": _spatial(point), "axis": axis})
    return out


def _axis_of(system: Mechanism, joint: str, axes: np.ndarray) -> list[float] | None:
    """The joint's axis in its second body at the start; None where it has no preferred one."""
    a, b = dict(system.markers)[joint]
    if a != 0:
        return None
    return None if b != 0 else axes[:, -1].tolist()


def _ground(system: Mechanism) -> list[list[float]]:
    out = []
    for joint, ends in system.markers:
        points = system.place(joint)[:2]
        out += [_spatial(p) for end, p in zip(ends, points, strict=True) if end == 0]
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
                "at": _spatial(frames.system.place(joint)[1]),
                "values": encoded(frames.at_frames(force)),
                "largest": float(np.max(np.linalg.norm(force, axis=1), initial=0.0)),
            }
        )
    return out


def _trails(system: Mechanism, traces: Traces) -> list[dict[str, Any]]:
    pairs = traces.values() if hasattr(traces, "values") else traces
    return [
        {"body": system.number_of(body), "at": _spatial(point), "colour": [0.7, 0.0, 0.37]}
        for body, point in pairs
    ]


def _quantities(frames: Frames) -> list[dict[str, Any]]:
    names = frames.system.coordinate_names(frames.q.shape[1])
    return [
        {"name": name, "unit": "", "values": encoded(frames.q[:, i], "<f8")}
        for i, name in enumerate(names)
    ]
