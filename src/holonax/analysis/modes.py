"""Eigenmodes: frequencies, damping ratios and shapes, by name."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._messages import listed, shown
from ..system.base import Array
from .checks import is_traced


@jax.jit
def sorted_modes(A: Array) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors) of A: positive imaginary parts first, from the slowest on.

    The derivative of a simple eigenvalue is that of w^H A z / w^H z with its left and right
    vectors w, z; eigenvectors are constants of differentiation.
    """
    frozen = jax.lax.stop_gradient(A)
    values, left, right = jax.lax.linalg.eig(
        frozen, compute_left_eigenvectors=True, compute_right_eigenvectors=True
    )
    size = jnp.max(jnp.abs(values), initial=0.0)
    # what rounding makes of a real eigenvalue is real
    real = jnp.abs(values.imag) <= 1e-13 * size
    half = jnp.where(real, 1, jnp.where(values.imag > 0, 0, 2))
    order = jnp.lexsort((values.real, jnp.abs(values), half))
    values, left, right = values[order], left[:, order], right[:, order]
    values = jnp.where(real[order], values.real.astype(values.dtype), values)
    overlap = jnp.sum(jnp.conj(left) * right, axis=0)
    # of a double eigenvalue with one vector they do not overlap, and its derivative has no bound
    overlap = jnp.where(jnp.abs(overlap) > 1e-14, overlap, 1e-14)
    # zero but for its derivative
    change = jnp.sum(jnp.conj(left) * ((A - frozen) @ right), axis=0) / overlap
    return values + change, right


class Modes(eqx.Module):
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
        size = jnp.abs(self.eigenvalues)
        free = size <= 1e-7 * jnp.max(size, initial=0.0)
        return jnp.where(free, 0.0, -self.eigenvalues.real / jnp.where(free, 1.0, size))

    def shape(self, name: str) -> Array:
        """The entries of all shapes for one coordinate, such as ``"crank.angle"``."""
        if name not in self.names:
            raise KeyError(f"There is no coordinate {shown(name)}; there are {listed(self.names)}.")
        return self.shapes[self.names.index(name)]

    def __len__(self) -> int:
        return int(self.eigenvalues.shape[0])

    def __str__(self) -> str:
        if is_traced(self.eigenvalues):
            return f"{len(self)} modes, being differentiated"
        lines = ["  mode   frequency [Hz]   [rad/s]        damping ratio   moves most"]
        shapes = np.asarray(self.shapes)
        for k in range(len(self)):
            size = np.abs(shapes[:, k])
            order = [i for i in np.argsort(-size, kind="stable")[:3] if size[i] > 0.05]
            moving: Any = ", ".join(self.names[i] for i in order)
            lines.append(
                f"  {k + 1:<4}   {float(self.frequency[k]):<14.6g}   "
                f"{float(self.angular_frequency[k]):<12.6g}   "
                f"{float(self.damping_ratio[k]):<13.4g}   {moving}"
            )
        return "\n".join(lines)
