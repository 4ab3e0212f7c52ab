"""Numbers that look as if they were meant in other units: degrees, millimetres. They are taken as
they are, with a warning."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import listed, warn
from .._numbers import is_traced

if TYPE_CHECKING:
    pass

_LONG = 100.0  # [m]
_THIN = 0.1  # [kg/m]; a fishing line of 1 mm weighs 1 g per metre, a steel rope of 1 cm 0.4 kg


def check_lengths(bodies: Iterable[Any], joints: Iterable[Any]) -> None:
    """Warn of bodies that are very large and hardly weigh anything: lengths in millimetres?"""
    reach: dict[str, float] = {}
    for item in joints:
        second = item.bodies[min(1, len(item.bodies) - 1)]
        for name, point in ((item.bodies[0], item.point_a), (second, item.point)):
            if not is_traced(point):
                reach[name] = max(reach.get(name, 0.0), float(np.linalg.norm(point)))
    odd = []
    for body in bodies:
        if is_traced(body.mass, body.inertia):
            return
        if not body.mass:
            continue  # the frame of a flexible body, or one of its markers
        gyration = math.sqrt(float(np.max(body.inertia)) / body.mass)
        size = max(gyration, reach.get(body.name, 0.0))
        if size > _LONG and body.mass < _THIN * size:
            odd.append(f"{body.name!r} ({size:.3g} m, {body.mass:.3g} kg)")
    if odd:
        warn(
            f"{listed(odd, 4)}: so large and so light? Lengths are in metres, masses in kilograms "
            "and inertias in kg m^2; divide lengths by 1000 if they are in millimetres."
        )


def check_angle(owner: str, what: str, value: Any) -> None:
    """Warn of an angle that looks like one in degrees: a whole number of more than a turn."""
    if is_traced(value):
        return
    if abs(value) > 2 * math.pi and float(value).is_integer():
        warn(
            f"{owner}: {what}={value:g} is {value / (2 * math.pi):.1f} turns. Angles are in "
            f"radians; use numpy.deg2rad({value:g}) if degrees are meant."
        )
