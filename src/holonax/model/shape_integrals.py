"""The mass of a flexible body by integrals over it, and the places where things attach.

See `body_modes.py` for what the integrals are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _numbers
from .._messages import listed, shown
from .._numbers import as_array, is_traced
from .items import ModelError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .body_modes import BodyModes


class ComparedArrays:
    """Equal where all of its arrays are."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, x.name), getattr(other, x.name)) for x in fields(self))  # pyright: ignore

    def __hash__(self) -> int:
        return hash(tuple(x.name for x in fields(self) if getattr(self, x.name) is not None))  # pyright: ignore


def _same(a: Any, b: Any) -> bool:
    if is_traced(a, b) or a is None or b is None or isinstance(a, ComparedArrays | Mapping):
        return a is b or (not is_traced(a, b) and a == b)
    return np.array_equal(a, b)


@dataclass(frozen=True, eq=False, repr=False)
class ShapeIntegrals(ComparedArrays):
    """The mass of a flexible body by its inertia shape integrals, with k modes.

    In space (r = 3 rotations, d = 3) or in the plane (r = 1, d = 2), where `inertia` and what
    depends on it may be given without the axes of length one.

    **Arguments:**

    - `mass` [kg], `first_moment` (d,) [kg m] and `inertia` (3, 3) or a number [kg m^2], about the
      origin of the floating frame.
    - `translation` (d, k): sum of m phi_j, the momentum that a rate of each mode has.
    - `rotation` (3, k) or (k,): sum of m p x phi_j, its angular momentum about the origin.
    - `modal_mass` (k, k): sum of m phi_i . phi_j.
    - `inertia_by_mode` (k, 3, 3) or (k,), `inertia_by_modes` (k, k, 3, 3) or (k, k): how the
      inertia grows with amplitudes, linearly and quadratically. Zero where left out.
    - `rotation_by_mode` (k, 3, k) or (k, k): sum of m phi_i x phi_j. Zero where left out.
    """

    mass: Any
    first_moment: Any
    inertia: Any
    _: KW_ONLY
    translation: Any
    rotation: Any
    modal_mass: Any
    inertia_by_mode: Any = None
    inertia_by_modes: Any = None
    rotation_by_mode: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, kept("ShapeIntegrals", field.name, self))
        P = as_array(self.translation)
        if P.ndim != 2 or P.shape[0] not in (2, 3):
            raise ModelError(
                f"ShapeIntegrals: translation has the shape {P.shape}. Give (2, modes) in the "
                "plane, (3, modes) in space."
            )
        d, k = P.shape
        wide = d == 3
        shapes: dict[str, tuple[int, ...]] = {
            "mass": (),
            "first_moment": (d,),
            "inertia": (3, 3) if wide else (),
            "rotation": (3, k) if wide else (k,),
            "modal_mass": (k, k),
            "inertia_by_mode": (k, 3, 3) if wide else (k,),
            "inertia_by_modes": (k, k, 3, 3) if wide else (k, k),
            "rotation_by_mode": (k, 3, k) if wide else (k, k),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None:
                check_shape("ShapeIntegrals", name, value, shape)
        turned = self.rotation_by_mode
        if turned is not None and not is_traced(turned):
            x = as_array(turned).reshape(k, -1, k)
            off = np.abs(x + np.swapaxes(x, 0, 2))
            if np.max(off, initial=0.0) > 1e-9 * np.max(np.abs(x), initial=0.0):
                i, _, j = np.unravel_index(np.argmax(off), off.shape)
                raise ModelError(
                    f"ShapeIntegrals: rotation_by_mode of modes {i} and {j} is not minus that of "
                    f"{j} and {i}. It is a sum of vector products phi_i x phi_j."
                )

    @property
    def dimension(self) -> int:
        """2 in the plane, 3 in space."""
        return np.shape(self.translation)[0]

    @property
    def modes(self) -> int:
        """How many there are."""
        return as_array(self.translation).shape[1]

    def __repr__(self) -> str:
        return f"ShapeIntegrals({self.modes} modes)"

    def arrays(self) -> dict[str, Any]:
        """All of them as arrays with axes for rotations, what was left out as zeros."""
        d, k = self.dimension, self.modes
        r = 3 if d == 3 else 1
        shapes = {
            "mass": (),
            "first_moment": (d,),
            "inertia": (r, r),
            "translation": (d, k),
            "rotation": (r, k),
            "modal_mass": (k, k),
            "inertia_by_mode": (k, r, r),
            "inertia_by_modes": (k, k, r, r),
            "rotation_by_mode": (k, r, k),
        }
        given = {name: getattr(self, name) for name in shapes}
        return {
            name: np.zeros(shape) if given[name] is None else as_array(given[name]).reshape(shape)
            for name, shape in shapes.items()
        }


@dataclass(frozen=True, eq=False)
class Marker(ComparedArrays):
    """A place of a flexible body: where it is at rest, and how it moves with each of k modes.

    **Arguments:**

    - `at`: in the body's coordinates [m].
    - `shape` (3, k), in the plane (2, k): its displacement for each mode.
    - `turn` (3, k), in the plane (k,): its rotation vector for each mode, in the body's axes;
      without it the marker keeps the axes of the floating frame.
    """

    at: Any
    shape: Any
    turn: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, kept("Marker", field.name, self))


def kept(owner: str, name: str, of: BodyModes | Marker | ShapeIntegrals) -> Any:
    """A number or array as it was given, traced, or as an array of the host nobody can change."""
    value = getattr(of, name)
    if value is None or is_traced(value):
        return value
    found = _numbers.array(owner, name, value, error=ModelError)
    found.setflags(write=False)
    return found


def check_shape(owner: str, name: str, value: ArrayLike, shape: tuple[int, ...]) -> None:
    """Refuse another shape; without any modes, whatever is empty will do."""
    if np.shape(value) != shape and not (0 in shape and np.size(value) == 0):
        raise ModelError(f"{owner}: {name} has the shape {np.shape(value)}. Give {shape}.")


def made_of(cls: Any, said: Mapping[str, Any]) -> Marker | ShapeIntegrals:
    """An object of the class from what `as_lists` made."""
    known = [field.name for field in fields(cls)]
    unknown = [x for x in said if x not in known]
    if unknown:
        raise ModelError(
            f"{cls.__name__}: it has no {shown(unknown[0])}. What it has is {listed(known, 20)}."
        )
    return cls(**said)


def as_lists(of: Marker | ShapeIntegrals) -> dict[str, Any]:
    """What an object was given, as lists."""
    said = ((field.name, getattr(of, field.name)) for field in fields(of))
    return {name: np.asarray(x).tolist() for name, x in said if x is not None}


def cross_table(d: int) -> np.ndarray:
    """x with (a x b)_c = x[c, a, b] a_a b_b: (3, 3, 3), in the plane (1, 2, 2)."""
    if d == 2:
        return np.array([[[0.0, 1.0], [-1.0, 0.0]]])
    out = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i, j, k], out[i, k, j] = 1.0, -1.0
    return out
