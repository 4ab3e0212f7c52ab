"""The parameters for which a motion is best: design of mechanisms, and control by shooting.

    minimize  c(motion(p), p)   subject to   low <= g(motion(p), p) <= high,   p within bounds

by quasi-Newton methods of SciPy: L-BFGS-B, or SLSQP where there are constraints, followed by steps
of Gauss and Newton that meet these to rounding. The derivatives
are those of the computed motion: by its adjoint where there are many parameters, by tangents that
follow the run where there are few.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
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
from ..run.trajectory import Adjoint, checked_start, trajectory
from ..start.consistent import Start
from ..system.base import System, check_system
from .search import limits_of, named

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

    from ..run.trajectory import Trajectory

_OWNER = "optimize"
_ADJOINT = 3  # tangents that take as long as an adjoint
_MET = 1e-6  # how well constraints are met at the end of a good search
_RESTORED, _RESTORING = 1e-12, 12  # what they are brought to after it, and in how many steps


@dataclass(frozen=True)
class Optimum:
    """The best parameters that were found.

    - `values`: by name; `system`: with these.
    - `cost`: of them; `begin`: of those that the search began with.
    - `constraints`: what each is, by name; `violation`: the most by which one is not met.
    - `success` and `message`: how the search ended; `runs`: how many motions were computed.
    """

    values: dict[str, np.ndarray]
    cost: float
    begin: float
    constraints: dict[str, np.ndarray]
    violation: float
    success: bool
    message: str
    runs: int
    system: System

    def __str__(self) -> str:
        met = f", constraints met to {self.violation:.1g}" if self.constraints else ""
        lines = [f"Optimum: cost {self.cost:.6g} from {self.begin:.6g}{met}; {self.runs} runs"]
        lines.append(f"  {self.message}")
        for name, x in self.values.items():
            lines.append(f"  {name} = {np.array2string(x, precision=6, threshold=8)}")
        return "\n".join(lines)


@checked_call
def optimize(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    times: Any,
    cost: Callable[..., Any],
    *,
    parameters: Sequence[str] | str,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    constraints: Mapping[str, tuple[Any, Any, Any]] | None = None,
    dt: float | None = None,
    rtol: float | None = None,
    tol: float = 1e-8,
    max_iterations: int = 200,
    **method: Any,
) -> Optimum:
    """The parameters for which `cost` of the motion is least; a minimum near the beginning.

    **Arguments:**

    - `start`, `times`, `dt`, `rtol` and `method`: as those of `trajectory`.
    - `cost`: a function of the `Trajectory` that returns one number, in `jax.numpy`; or of
      (trajectory, system), for what depends on the parameters themselves or on a quantity by name,
      ``system.quantity("coupler.velocity.x")(t, q, v)``.
    - `parameters`: the names to be found, of ``system.parameters()``; ``"q"`` and ``"v"`` are the
      start. The search begins with the values that the system has.
    - `bounds`: (least, most) of parameters by name.
    - `constraints`: (function, least, most) by names of your own; the function is like `cost`, and
      may return an array. Equal limits are an equation; None is no limit.
    - `tol`: the search ends when the cost changes by less, relative to what it began with.
    - `max_iterations`: or after so many.

    A control is optimized through its values at some times: see `Knots`.

    ```python
    best = hx.optimize(
        system, start, times, lambda motion: jnp.max(jnp.abs(motion.v[:, 0])),
        parameters=["coupler.mass"], bounds={"coupler.mass": (0.5, 5.0)}, dt=1e-3,
    )
    ```
    """
    check_system(_OWNER, system)
    check_options(optimize, method, trajectory)
    start = checked_start(_OWNER, system, start)
    names = names_given(_OWNER, "parameters", parameters)
    asked = _asked(cost, constraints)
    search = _Search(system, start, names, asked, bounds)
    search.prepare(times, dt, rtol, method)
    search.check_begin()
    tol = finite_number(_OWNER, "tol", tol, positive=True)
    most = count(_OWNER, "max_iterations", max_iterations)
    kind = "SLSQP" if constraints else "L-BFGS-B"
    from scipy.optimize import Bounds, minimize  # slow to import

    found = minimize(
        search.cost,
        search.begin,
        jac=True,
        method=kind,
        bounds=Bounds(*search.limits),  # pyright: ignore[reportArgumentType]
        constraints=search.scipy_constraints(),
        tol=tol,
        options={"maxiter": most},
    )
    return search.result(found)


@dataclass(frozen=True)
class _Asked:
    """The functions of the motion, cost first, with the limits of the others."""

    functions: tuple[Callable[..., Any], ...]
    names: tuple[str, ...]
    limits: tuple[tuple[Any, Any], ...]


def _asked(cost: Any, constraints: Any) -> _Asked:
    if not callable(cost):
        raise TypeError(
            f"{_OWNER}: cost={shown(cost)} must be a function of a Trajectory, or of a Trajectory "
            "and the system."
        )
    given = {} if constraints is None else constraints
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{_OWNER}: constraints={shown(given)} must be a dictionary such as "
            "{'at rest': (lambda motion: motion.v[-1], 0.0, 0.0)}."
        )
    limits = []
    for name, item in given.items():
        if not (isinstance(item, tuple | list) and len(item) == 3 and callable(item[0])):
            raise TypeError(
                f"{_OWNER}: constraints[{name!r}]={shown(item)} must be (function, least, most)."
            )
        low = -np.inf if item[1] is None else _limit(name, item[1])
        high = np.inf if item[2] is None else _limit(name, item[2])
        if np.any(low > high):
            raise ValueError(
                f"{_OWNER}: the limits of constraints[{name!r}], {shown(item[1])} and "
                f"{shown(item[2])}, leave nothing between them. Give (function, least, most)."
            )
        limits.append((low, high))
    return _Asked((cost, *(item[0] for item in given.values())), tuple(given), tuple(limits))


def _limit(name: str, given: float | Sequence[float]) -> np.ndarray:
    return array(_OWNER, f"a limit of constraints[{name!r}]", given)


def _called(function: Callable[..., Any], motion: Trajectory, system: System) -> Array:
    """A function of the motion, or of the motion and the system."""
    try:
        kinds = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # what is not written in Python
        return function(motion)
    places = [x for x in kinds if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    needed = [x for x in places if x.default is x.empty]
    return function(motion, system) if len(needed) > 1 else function(motion)


class _Search:
    """The runs of a search; parameters are in units of their size, the cost of that it began with.

    Motion, cost, constraints and all derivatives come of one compiled call, which serves whoever
    asks next at the same place.
    """

    def __init__(
        self,
        system: System,
        start: Start | tuple[ArrayLike, ArrayLike],
        names: Any,
        asked: _Asked,
        bounds: Mapping[str, tuple[float, float | Sequence[float]]] | None,
    ):
        redundant = isinstance(start, Start) and start.redundant
        self._system = system.with_redundant_constraints() if redundant else system
        self._asked = asked
        self.known = known_values(_OWNER, "parameters", system, start, names)
        pair = (start.q, start.v) if isinstance(start, Start) else start
        self._state = tuple(np.asarray(x) for x in pair)
        x = np.concatenate([np.ravel(self.known[name]) for name in names])
        low, high = limits_of(_OWNER, bounds, names, self.known, np.ones_like(x))
        reach = np.maximum(np.abs(low), np.abs(high))
        size = np.where(np.isfinite(reach), reach, 1.0)
        # the entries of an array are of one kind: one that happens to be small is no small unit
        largest = [np.full(x.size, np.max(np.abs(x), initial=0.0)) for x in self.known.values()]
        own = np.concatenate(largest)
        self._scale = np.where(own > 0, own, size)
        self.limits = low / self._scale, high / self._scale
        self.begin = np.clip(x / self._scale, *self.limits)
        self._last: tuple[bytes, Any] = b"", None
        self.runs = 0
        self._best = np.inf
        self._sizes: tuple[int, ...] = ()

    def prepare(
        self, times: np.ndarray | Sequence[float], dt: Any, rtol: object, method: dict[str, Any]
    ) -> None:
        """Compile, or find, the run with its derivatives."""
        self._times = array(_OWNER, "times", times, (None,))
        steps = {k: x for k, x in (("dt", dt), ("rtol", rtol)) if x is not None}
        self._steps = {
            k: np.asarray(finite_number(_OWNER, k, x, positive=True)) for k, x in steps.items()
        }
        if rtol is None and dt is not None and method.get("max_steps") is None:
            method["max_steps"] = room_for(self._times, float(dt))
        parts = Parts.of((self._system, method))
        self._leaves = [np.asarray(x) for x in parts.arrays]
        functions = self._asked.functions
        given = self._leaves, self._state, self._times, self._steps
        with self._explained():
            seen = jax.eval_shape(
                partial(_seen, functions, parts.rest, "forward"), self.known, *given
            )
        rows = sum(int(np.prod(x.shape, dtype=int)) for x in seen)
        reverse = self.begin.size > _ADJOINT * rows
        self._program = _program(functions, reverse, parts.rest)
        self._shapes = [x.shape for x in seen]

    @contextmanager
    def _explained(self) -> Any:
        """Errors of the user's functions in our words."""
        try:
            yield
        except Exception as error:
            if str(error).startswith((f"{_OWNER}:", "trajectory:")):
                raise
            raise ValueError(
                f"{_OWNER}: cost or constraints cannot be computed: {explained(error)} They are "
                "given a Trajectory and return numbers, by jax.numpy."
            ) from None

    def values(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters by name."""
        return named(self.known, y * self._scale)

    def at(self, y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The cost and each of the constraints, and their Jacobians."""
        key = np.asarray(y, dtype=float).tobytes()
        if self._last[0] != key:
            given = self._leaves, self._state, self._times, self._steps
            seen, slopes = self._program(self._shapes, self.values(y), *given)
            rows = [np.ravel(np.asarray(x)) for x in seen]
            matrices = [
                np.concatenate(
                    [np.reshape(part[name], (x.size, -1)) for name in self.known], axis=1
                )
                * self._scale
                for x, part in zip(rows, slopes, strict=True)
            ]
            self.runs += 1
            self._last = key, (rows, matrices)
        return self._last[1]

    def check_begin(self) -> None:
        """Refuse what cannot be computed, or does not come to its end at the beginning."""
        rows, matrices = self.at(self.begin)
        if rows[0].size != 1:
            raise ValueError(
                f"{_OWNER}: cost returns {rows[0].size} numbers. It must return one, such as their "
                "sum."
            )
        if not all(np.all(np.isfinite(x)) for x in (*rows, *matrices)):
            raise ValueError(
                f"{_OWNER}: the run with the parameters that the system has does not come to its "
                "end, or its cost or constraints are not finite. Begin with others, or take "
                "smaller steps."
            )
        for name, x, pair in zip(self._asked.names, rows[1:], self._asked.limits, strict=True):
            if any(np.size(limit) not in (1, x.size) for limit in pair):
                raise ValueError(
                    f"{_OWNER}: constraints[{name!r}] returns {x.size} numbers, but its limits are "
                    f"{listed(str(np.size(limit)) for limit in pair)}. Give one for all, or for "
                    "each."
                )
        self.first = float(rows[0][0])
        self._unit = abs(self.first) or 1.0
        self._best = self.first

    def cost(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost and its gradient; far above all others for a run that fails."""
        rows, matrices = self.at(y)
        if not (np.all(np.isfinite(rows[0])) and np.all(np.isfinite(matrices[0]))):
            return 1e6 * (1.0 + abs(self._best) / self._unit), np.zeros_like(y)
        self._best = min(self._best, float(rows[0][0]))
        return float(rows[0][0]) / self._unit, matrices[0][0] / self._unit

    def scipy_constraints(self) -> list[dict[str, Any]]:
        """As SLSQP wants them: equations, and what may not be negative."""
        out = []
        for k, (low, high) in enumerate(self._asked.limits, start=1):
            shape = self.at(self.begin)[0][k].shape
            low, high = (np.broadcast_to(np.ravel(x), shape) for x in (low, high))
            equal = low == high
            for kind, which, side, sign in (
                ("eq", equal, low, 1.0),
                ("ineq", ~equal & np.isfinite(low), low, 1.0),
                ("ineq", ~equal & np.isfinite(high), high, -1.0),
            ):
                if which.any():
                    out.append(self._one_sided(kind, k, which, side, sign))
        return out

    def _one_sided(
        self, kind: str, k: int, which: np.ndarray, side: np.ndarray, sign: float
    ) -> dict[str, Any]:
        def value(y: np.ndarray) -> np.ndarray:
            return np.nan_to_num(sign * (self.at(y)[0][k] - side)[which], nan=-1e6)

        def slope(y: np.ndarray) -> np.ndarray:
            return np.nan_to_num(sign * self.at(y)[1][k][which])

        return {"type": kind, "fun": value, "jac": slope}

    def _missed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much constraints are not met, signed, and the Jacobian of these rows."""
        rows, matrices = self.at(y)
        off, slopes = [np.zeros(0)], [np.zeros((0, y.size))]
        for x, slope, pair in zip(rows[1:], matrices[1:], self._asked.limits, strict=True):
            low, high = (np.broadcast_to(np.ravel(limit), x.shape) for limit in pair)
            beyond = np.minimum(x - low, 0.0) + np.maximum(x - high, 0.0)
            which = ~(beyond == 0)
            off.append(beyond[which])
            slopes.append(slope[which])
        return np.concatenate(off), np.concatenate(slopes)

    def restored(self, y: np.ndarray) -> np.ndarray:
        """The nearest place at which constraints hold, by Gauss and Newton, as far as that goes.

        SLSQP ends where its merit does not change; what may not be off is then brought to rounding.
        """
        y = np.clip(y, *self.limits)
        for _ in range(_RESTORING):
            off, slopes = self._missed(y)
            worst = np.max(np.abs(off), initial=0.0)
            if not _RESTORED < worst < np.inf:
                break
            free, step = np.ones(y.size, dtype=bool), np.zeros(y.size)
            for _ in range(y.size):  # what lies at a bound and would leave is held there
                step = np.zeros(y.size)
                step[free] = -np.linalg.lstsq(slopes[:, free], off, rcond=1e-10)[0]
                out = free & (np.clip(y + step, *self.limits) != y + step)
                if not out.any() or out.sum() == free.sum():
                    break
                free &= ~out
            moved = np.clip(y + step, *self.limits)
            if not np.max(np.abs(self._missed(moved)[0]), initial=0.0) < worst:
                break
            y = moved
        return y

    def result(self, found: Any) -> Optimum:
        """The best parameters."""
        y = self.restored(found.x)
        rows, _ = self.at(y)
        held = dict(zip(self._asked.names, rows[1:], strict=True))
        off = float(np.max(np.abs(self._missed(y)[0]), initial=0.0))
        values = self.values(y)
        moved = {name: x for name, x in values.items() if name not in ("q", "v")}
        cost, message = float(rows[0][0]), str(found.message).strip().rstrip(".").capitalize()
        if kept := [name for name, x in self._at_bounds(y).items() if x]:
            message += f"; at a bound: {listed(kept)}"
        return Optimum(
            values=values,
            cost=cost,
            begin=self.first,
            constraints=held,
            violation=off,
            success=bool(found.success) and np.isfinite(cost) and off < _MET,
            message=message,
            runs=self.runs,
            system=self._system.with_parameters(moved) if moved else self._system,
        )

    def _at_bounds(self, y: np.ndarray) -> dict[str, bool]:
        low, high = self.limits
        near = (y - low < 1e-9) | (high - y < 1e-9)
        return {name: bool(np.any(x)) for name, x in named(self.known, near).items()}


def _seen(
    functions: Any,
    rest: Hashable,
    adjoint: Adjoint,
    values: Mapping[str, Array],
    leaves: Sequence[Array],
    state: tuple[Array, Array],
    times: Array,
    numbers: Mapping[str, Array],
) -> tuple[Array, ...]:
    """The functions of the motion with these values."""
    system, method = Parts.joined(leaves, rest)
    moved = {name: x for name, x in values.items() if name not in ("q", "v")}
    if moved:
        system = system.with_parameters(moved)
    start = values.get("q", state[0]), values.get("v", state[1])
    motion = trajectory(system, start, times, **numbers, **method, adjoint=adjoint)
    return tuple(jnp.asarray(_called(f, motion, system), dtype=float) for f in functions)


@lru_cache(maxsize=64)
def _program(functions: object, reverse: bool, rest: Hashable) -> Any:
    """The functions of the motion and their derivatives by name, as a compiled function."""
    return _by_adjoints(functions, rest) if reverse else _by_tangents(functions, rest)


def _by_tangents(functions: object, rest: Hashable) -> Any:
    """One run that all parameters' tangents follow."""
    value = partial(_seen, functions, rest, "forward")

    def twice(*given: Any) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        seen = value(*given)
        return seen, seen

    def both(
        values: Mapping[str, Array], *given: Any
    ) -> tuple[tuple[Array, ...], tuple[dict[str, Array], ...]]:
        slopes, seen = jax.jacfwd(twice, has_aux=True)(values, *given)
        return seen, slopes

    program = native(both)
    return lambda shapes, *given: program(*given)


def _by_adjoints(functions: object, rest: Hashable) -> Any:
    """A run and its adjoint for each number, by one program: the gradient of a weighted sum."""
    value = partial(_seen, functions, rest, "reverse")

    def weighted(values: Mapping[str, Array], weights: tuple[Array], *given: Any) -> Any:
        seen = value(values, *given)
        total = sum(jnp.sum(w * x) for w, x in zip(weights, seen, strict=True))
        return total, seen

    program = native(jax.value_and_grad(weighted, has_aux=True))

    def both(shapes: Any, values: Mapping[str, np.ndarray], *given: Any) -> Any:
        seen, slopes = None, []
        for k, shape in enumerate(shapes):
            rows = []
            for at in np.ndindex(*shape):
                weights = [np.zeros(x) for x in shapes]
                weights[k][at] = 1.0
                (_, seen), gradient = program(values, tuple(weights), *given)
                rows.append({name: np.asarray(x) for name, x in gradient.items()})
            slopes.append({name: np.stack([row[name] for row in rows]) for name in values})
        return seen, slopes

    return both
