"""Eigenmodes: frequencies, damping ratios and shapes, by name."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._messages import listed, shown
from .._modules import Module
from ..system.base import Array
from .checks import is_traced, known

_ROUNDING = 100 * np.finfo(float).eps  # in a matrix, relative to its norm


def zeros(A: np.ndarray) -> int:
    """How many eigenvalues of A are zero: the dimensions that applying A again and again removes.

    Counted by ranks, since of a k-fold one with a single vector (a wheel may be anywhere on its
    plane, and roll on at any speed) rounding makes the k-th root of itself.
    """
    smallest, n = _ROUNDING * np.linalg.norm(A), A.shape[0]
    while A.size:
        _, s, vt = np.linalg.svd(A)
        kept = int(np.sum(s > smallest))
        if kept == A.shape[0]:
            break
        A = vt[:kept] @ A @ vt[:kept].T
    return n - A.shape[0]


def sorted_modes(A: Array) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors) of A: positive imaginary parts first, from the slowest on.

    The derivative of a simple eigenvalue is that of w^H A z / w^H z with its left and right
    vectors w, z; eigenvectors are constants of differentiation. Those that are zero are so but for
    rounding inside a compiled program.
    """
    value = known(A)
    return _sorted_modes(A, 0 if value is None else zeros(value))


@partial(jax.jit, static_argnums=1)
def _sorted_modes(A: Array, zeros: int) -> tuple[Array, Array]:
    frozen = jax.lax.stop_gradient(A)
    values, left, right = jax.lax.linalg.eig(
        frozen, compute_left_eigenvectors=True, compute_right_eigenvectors=True
    )
    overlap = jnp.sum(jnp.conj(left) * right, axis=0)
    # of a double eigenvalue with one vector they do not overlap, and its derivative has no bound
    overlap = jnp.where(jnp.abs(overlap) > 1e-14, overlap, 1e-14)
    rank = jnp.argsort(jnp.argsort(jnp.abs(values)))
    values = jnp.where(rank < zeros, 0.0, values)
    # what rounding makes of a real eigenvalue is real, also of a double one
    unknown = _ROUNDING * jnp.linalg.norm(frozen) / jnp.abs(overlap)
    real = jnp.abs(values.imag) <= jnp.minimum(unknown, 1e-6 * jnp.abs(values))
    values = jnp.where(real, values.real.astype(values.dtype), values)
    half = jnp.where(real, 1, jnp.where(values.imag > 0, 0, 2))
    order = jnp.lexsort((values.real, jnp.abs(values), half))
    values, left, right = values[order], left[:, order], right[:, order]
    overlap = overlap[order]
    # zero but for its derivative
    change = jnp.sum(jnp.conj(left) * ((A - frozen) @ right), axis=0) / overlap
    return values + change, right


class Modes(Module):
    """Free vibrations exp(eigenvalue t): one entry for each pair of conjugate eigenvalues, from the
    slowest on, then one for each real eigenvalue.

    `eigenvalues` [1/s], `angular_frequency` |Im| [rad/s], `frequency` [Hz] (the damped ones),
    `damping_ratio` -Re/|eigenvalue|, and `shapes` (nv, modes), complex, with the largest entry one.
    """

    eigenvalues: Array
    shapes: Array
    names: tuple[str, ...] = eqx.field(static=True)

    @staticmethod
    def of(eigenvalues: Array, shapes: Array, names: tuple[str, ...]) -> Modes:
        """With shapes of any size."""
        shapes = jax.lax.stop_gradient(shapes)
        largest = jnp.argmax(jnp.abs(shapes), axis=0)
        reference = jnp.take_along_axis(shapes, largest[None], axis=0)
        shapes = shapes / jnp.where(reference == 0, 1.0, reference)
        return Modes(eigenvalues, shapes, names)

    @property
    def angular_frequency(self) -> Array:
        """|Im| of the eigenvalues [rad/s]: zero for motions that do not oscillate."""
        return jnp.abs(self.eigenvalues.imag)

    @property
    def frequency(self) -> Array:
        """Cycles per second [Hz]."""
        return self.angular_frequency / (2 * jnp.pi)

    @property
    def damping_ratio(self) -> Array:
        """-Re/|eigenvalue|: 0 undamped, 1 for what creeps back, negative for what grows.

        Zero for motions that nothing resists, whose eigenvalues are zero but for rounding.
        """
        size, free = jnp.abs(self.eigenvalues), self._free
        return jnp.where(free, 0.0, -self.eigenvalues.real / jnp.where(free, 1.0, size))

    @property
    def _free(self) -> Array:
        size = jnp.abs(self.eigenvalues)
        return size <= 1e-7 * jnp.max(size, initial=0.0)

    @property
    def unstable(self) -> Array:
        """Whether each mode grows: a real part that is positive by more than rounding."""
        largest = jnp.max(jnp.abs(self.eigenvalues), initial=0.0)
        return jnp.logical_and(self.eigenvalues.real > 1e-10 * largest, ~self._free)

    def shape(self, name: str) -> Array:
        """The entries of all shapes for one coordinate, such as ``"crank.angle"``."""
        return named_shape(self.names, self.shapes, name)

    def __len__(self) -> int:
        return int(self.eigenvalues.shape[0])

    def __str__(self) -> str:
        if is_traced(self.eigenvalues):
            return f"{len(self)} modes, being differentiated"
        lines = [
            "  mode   eigenvalue [1/s]           frequency [Hz]   damping ratio   moves most",
        ]
        shapes, unstable = np.asarray(self.shapes), np.asarray(self.unstable)
        still = np.asarray(self.eigenvalues) == 0
        for k in np.flatnonzero(~still):
            size = np.abs(shapes[:, k])
            order = [i for i in np.argsort(-size, kind="stable")[:3] if size[i] > 0.05]
            moving: Any = ", ".join(self.names[i] for i in order)
            # a frequency and a damping ratio say little of what creeps, and nothing of what grows
            swings = float(self.angular_frequency[k]) > 0
            frequency = f"{float(self.frequency[k]):.6g}" if swings else "-"
            damping = "unstable" if unstable[k] else f"{_whole(float(self.damping_ratio[k])):.4g}"
            lines.append(
                f"  {k + 1:<4}   {_written(complex(self.eigenvalues[k])):<24}   "
                f"{frequency:<14}   {damping:<13}   {moving}"
            )
        if still.any():
            count = int(still.sum())
            lines.append(f"  {count} of eigenvalue 0: motions that nothing resists or drives")
        if unstable.any():
            lines.append(f"  unstable: {int(unstable.sum())} of {len(self)} modes grow")
        return "\n".join(lines)


def named_shape(names: tuple[str, ...], shapes: Any, name: str) -> Any:
    """The row of `shapes` that belongs to one coordinate."""
    if name not in names:
        raise KeyError(f"There is no coordinate {shown(name)}; there are {listed(names)}.")
    return shapes[names.index(name)]


def _whole(x: float) -> float:
    return x if abs(x) > 1e-12 else 0.0


def _written(x: complex) -> str:
    """A pair of conjugate eigenvalues, or a real one, without the rounding in a part."""
    x = complex(*(part if abs(part) > 1e-12 * abs(x) else 0.0 for part in (x.real, x.imag)))
    return f"{x.real:.6g} ± {x.imag:.6g}i" if x.imag else f"{x.real:.6g}"
