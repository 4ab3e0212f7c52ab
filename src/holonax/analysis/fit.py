"""Parameters from measurements: least squares over whole motions.

Of the motion x(t; p) with parameters p the sum of ((y(x(t_i; p)) - d_i) / sigma_i)^2 is minimised
by the trust-region method of SciPy. The Jacobian is that of the computed motion, exact to rounding,
by tangents that follow the run (forward mode). At the minimum

    cov(p) = s^2 (J' J)^-1,    s^2 = |r|^2 / (n - m)  unless sigma is known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import check_options, checked_call
from .._arguments import names as names_given
from .._messages import explained, listed, shown
from .._numbers import array, count, finite_number
from .._parts import Parts
from ..compiler import native
from ..run.gradients import known_values, room_for
from ..run.trajectory import checked_start, trajectory
from ..start.consistent import Start
from ..system.base import System, check_system
from ..system.mechanism import Mechanism
from .search import entries, limits_of, named

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree
    from numpy.typing import ArrayLike

    from ..compiler.native import Native

_OWNER = "fit"
_BLIND = 1e-9  # of the largest singular value: what data do not tell of


@dataclass(frozen=True)
class Fit:
    """Parameters that explain measurements best.

    - `values`: by name; `std`: their standard deviations, infinite where data tell nothing.
    - `covariance` (m, m): of all entries, in the order of `names`.
    - `residual`: what is left of each measurement, in units of its `sigma`; `cost` half the sum of
      their squares.
    - `system`: with these parameters. `success` and `message`: how the search ended.
    """

    values: dict[str, np.ndarray]
    std: dict[str, np.ndarray]
    covariance: np.ndarray
    names: tuple[str, ...]
    residual: np.ndarray
    cost: float
    success: bool
    message: str
    runs: int
    system: System

    def __str__(self) -> str:
        lines = [f"Fit of {listed(self.values)}: {self.message}"]
        for name, x in self.values.items():
            pairs = zip(np.ravel(x), np.ravel(self.std[name]), strict=True)
            lines.append(f"  {name} = " + ", ".join(f"{a:.6g} +- {b:.2g}" for a, b in pairs))
        return "\n".join(lines)


@checked_call
def fit(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    times: ArrayLike,
    data: ArrayLike,
    *,
    parameters: Sequence[str] | str,
    observe: Callable[[Any], Any] | str,
    bounds: dict[str, tuple[float, float]] | None = None,
    sigma: Any = None,
    dt: float | None = None,
    rtol: float | None = None,
    max_runs: int = 100,
    **method: Any,
) -> Fit:
    """The parameters for which the motion comes closest to `data`, with their uncertainty.

    **Arguments:**

    - `start`, `times`, `dt`, `rtol` and `method`: as those of `trajectory`; `times` [s] are those
      of the measurements, the first of which is that of the start.
    - `data`: what was measured, of the shape of what `observe` returns.
    - `parameters`: the names to be found, of ``system.parameters()``; ``"q"`` and ``"v"`` are the
      start. The search begins with the values that the system has.
    - `observe`: a function of the `Trajectory` in `jax.numpy`; or the name of a quantity, such as
      ``"slider.position.x"``.
    - `bounds`: (least, most) of parameters by name.
    - `sigma`: the standard deviation of each measurement, or one for all. If it is not given it
      follows from what is left of the data.
    - `max_runs`: after so many the search ends.

    ```python
    found = hx.fit(
        system, start, times, angles, parameters=["rod.mass"], observe="crank.angle", dt=1e-3
    )
    print(found)
    ```
    """
    check_system(_OWNER, system)
    check_options(fit, method, trajectory)
    start = checked_start(_OWNER, system, start)
    names = names_given(_OWNER, "parameters", parameters)
    if not callable(observe) and not isinstance(observe, str):
        raise TypeError(
            f"{_OWNER}: observe={shown(observe)} must be a function of a Trajectory, or the name "
            "of a quantity."
        )
    if isinstance(observe, str):
        if not isinstance(system, Mechanism):
            raise TypeError(
                f"{_OWNER}: observe={observe!r}, but a system of functions has no quantities by "
                "name. Give a function of a Trajectory."
            )
        system.named_quantity(_OWNER, observe)  # refuses what there is not
    search = _Search(system, start, names, observe, times, data, sigma)
    search.prepare(dt, rtol, method)
    limits = limits_of(_OWNER, bounds, names, search.known, search.scale)
    search.check_begin()
    from scipy.optimize import least_squares  # slow to import

    found = least_squares(
        lambda y: np.nan_to_num(search(y)[0], nan=1e150),
        np.clip(search.begin, *limits),
        jac=lambda y: np.nan_to_num(search(y)[1]),  # pyright: ignore[reportArgumentType]
        bounds=limits,
        ftol=1e-12,
        xtol=1e-12,
        gtol=1e-12,
        max_nfev=count(_OWNER, "max_runs", max_runs),
    )
    return search.result(found, sigma is not None)


class _Search:
    """The measurements, and the runs that are compared with them; parameters are in units of those
    that the system has."""

    def __init__(
        self,
        system: System,
        start: Start | tuple[ArrayLike, ArrayLike],
        names: Any,
        observe: Any,
        times: Any,
        data: Any,
        sigma: Any,
    ):
        self.known = known_values(_OWNER, "parameters", system, start, names)
        self.names, self._observe = names, observe
        self._times = array(_OWNER, "times", times, (None,))
        self._data = array(_OWNER, "data", data)
        sigma = array(_OWNER, "sigma", 1.0 if sigma is None else sigma)
        if np.any(sigma <= 0) or (sigma.ndim and sigma.shape != self._data.shape):
            raise ValueError(
                f"{_OWNER}: sigma={shown(sigma)} must be positive, one number or of the shape of "
                f"data, {self._data.shape}."
            )
        self._sigma = np.broadcast_to(sigma, self._data.shape).ravel()
        redundant = isinstance(start, Start) and start.redundant
        self._system = system.with_redundant_constraints() if redundant else system
        pair = (start.q, start.v) if isinstance(start, Start) else start
        self._state = tuple(np.asarray(x) for x in pair)
        x = np.concatenate([np.ravel(self.known[name]) for name in names])
        self.scale = np.where(x != 0, np.abs(x), 1.0)
        self.begin = x / self.scale
        self._last: tuple[bytes, Any] = b"", None

    def prepare(self, dt: Any, rtol: object, method: dict[str, Any]) -> None:
        """Compile, or find, the run with its tangents."""
        steps = {k: x for k, x in (("dt", dt), ("rtol", rtol)) if x is not None}
        self._steps = {
            k: np.asarray(finite_number(_OWNER, k, x, positive=True)) for k, x in steps.items()
        }
        if rtol is None and dt is not None and method.get("max_steps") is None:
            method["max_steps"] = room_for(self._times, float(dt))
        parts = Parts.of((self._system, {**method, "adjoint": "forward"}))
        self._leaves = [np.asarray(x) for x in parts.arrays]
        self._program = _program(self.names, self._observe, parts.rest)

    def values(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters by name."""
        return named(self.known, y * self.scale)

    def __call__(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(residuals, their Jacobian); both come of one run."""
        key = y.tobytes()
        if self._last[0] != key:
            given = self._leaves, self._state, self._times, self._steps
            value, slopes = self._program(self.values(y), *given)
            shape = self._data.shape
            if np.shape(value) != shape:
                raise ValueError(
                    f"{_OWNER}: data have the shape {shape}, but what is observed has "
                    f"{np.shape(value)}. Give one for each."
                )
            columns = [np.reshape(slopes[name], (self._data.size, -1)) for name in self.names]
            matrix = np.concatenate(columns, axis=1) * self.scale / self._sigma[:, None]
            residual = (np.asarray(value) - self._data).ravel() / self._sigma
            self._last = key, (residual, matrix)
        return self._last[1]

    def check_begin(self) -> None:
        """Refuse what cannot be computed, or does not come to its end at the beginning."""
        try:
            finite = np.all(np.isfinite(self(self.begin)[0]))
        except (jax.errors.JAXTypeError, TypeError) as error:
            raise ValueError(
                f"{_OWNER}: observe cannot be computed: {explained(error)} It is given a "
                "Trajectory and returns an array, by jax.numpy."
            ) from None
        if not finite:
            raise ValueError(
                f"{_OWNER}: the run with the parameters that the system has does not come to its "
                "end, or what is observed is not finite. Begin with others, or take smaller steps."
            )

    def result(self, found: Any, known_sigma: bool) -> Fit:
        """The parameters with their uncertainty."""
        residual, matrix = self(found.x)
        covariance, blind = _covariance(matrix, residual, known_sigma)
        covariance = covariance * np.outer(self.scale, self.scale)
        rows, message = entries(self.names, self.known), str(found.message).rstrip(".")
        if blind.any():
            message += (
                f"; the data do not tell {listed(np.array(rows)[blind].tolist())} (apart), so "
                "these values are some of many"
            )
        values = self.values(found.x)
        moved = {name: x for name, x in values.items() if name not in ("q", "v")}
        return Fit(
            values=values,
            std=self.values(np.sqrt(np.diag(covariance)) / self.scale),
            covariance=covariance,
            names=tuple(rows),
            residual=residual.reshape(self._data.shape),
            cost=float(found.cost),
            success=bool(found.success) and bool(np.all(np.isfinite(residual))),
            message=message,
            runs=int(found.nfev),
            system=self._system.with_parameters(moved) if moved else self._system,
        )


@lru_cache(maxsize=64)
def _program(names: tuple[str, ...], observe: Any, rest: Hashable) -> Native:
    """What is observed, and its derivatives by name, as one compiled function."""

    def value(
        values: Mapping[str, Array],
        leaves: PyTree,
        state: tuple[Array, Array],
        times: Array,
        numbers: Any,
    ) -> Any:
        system, method = Parts.joined(leaves, rest)
        moved = {name: x for name, x in values.items() if name not in ("q", "v")}
        if moved:
            system = system.with_parameters(moved)
        start = values.get("q", state[0]), values.get("v", state[1])
        motion = trajectory(system, start, times, **numbers, **method)
        if isinstance(observe, str):
            seen = jax.vmap(system.quantity(observe))(motion.t, motion.q, motion.v)
        else:
            seen = observe(motion)
        seen = jnp.asarray(seen, dtype=float)
        return seen, seen

    def both(values: dict[str, Array], *given: Any) -> Any:
        slopes, seen = jax.jacfwd(value, has_aux=True)(values, *given)
        return seen, slopes

    return native(both)


def _covariance(
    matrix: np.ndarray, residual: np.ndarray, known: bool
) -> tuple[np.ndarray, np.ndarray]:
    """That of scaled parameters, and which of them the data do not tell."""
    rows, columns = matrix.shape
    _, values, vectors = np.linalg.svd(matrix, full_matrices=False)
    good = values > _BLIND * max(values.max(initial=0.0), 1e-300)
    spread = 1.0 if known else residual @ residual / max(rows - columns, 1)
    inverse = np.where(good, 1 / np.where(good, values, 1.0) ** 2, 0.0)
    covariance = spread * (vectors.T * inverse) @ vectors
    blind = (
        np.any(np.abs(vectors[~good]) > 0.1, axis=0) if not good.all() else np.zeros(columns, bool)
    )
    covariance[blind, blind] = np.inf
    return covariance, blind
