"""A system given by functions: mass, force, constraint. Derivatives come from AD."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lax import optimization_barrier

from .._messages import listed, shown
from .._modules import changed
from .._numbers import as_array
from ..linalg import jacobian
from .array_types import (
    Force,
    Jacobian,
    Multipliers,
    PerRow,
    Position,
    Scalar,
    SquareMatrix,
    Time,
    Velocity,
)
from .base import Array, Metric, Rows, System
from .dense import DenseFactor, DenseSlopes, FunctionSolver, inverse_mass
from .elements import Indices
from .signals import signals_in
from .step import Level, StepPoint, StepWeights
from .time_dependence import depends

if TYPE_CHECKING:
    from jaxtyping import PyTree


def _check_callable(name: str, fun: object, arguments: str) -> None:
    if not callable(fun):
        raise TypeError(
            f"FunctionSystem: {name} is {type(fun).__name__}, not a function. "
            f"Give a function of ({arguments})."
        )
    expected = len(arguments.split(","))
    try:
        inspect.signature(fun).bind(*range(expected))
    except TypeError:
        raise TypeError(
            f"FunctionSystem: {name} does not take ({arguments}). Write it as a function of these "
            f"{expected} arguments; p is the `parameters` given to the system."
        ) from None
    except ValueError:
        pass  # a builtin without a signature


class FunctionSystem(System):
    """A constrained system from plain functions of generalized coordinates, with q' = v.

    **Arguments:**

    - `mass`: function (q, p) -> the diagonal of M, shape (n,), or the full matrix (n, n).
    - `force`: function (q, v, t, p) -> f, shape (n,). With a mass matrix that depends on q it
      includes the velocity-dependent inertia terms.
    - `constraint`: function (q, t, p) -> g, shape (m,); leave out for a free system.
    - `nonholonomic`: function (q, v, t, p) -> A v + b, linear in v, shape (k,).
    - `reaction_force`: function (q, v, t, lam, p) -> forces that depend on the multipliers as well,
      shape (n,), to be added to `force`: M v' = f + r - G^T lam. Friction by a normal force, say.
    - `potential`: function (q, p) -> potential energy [J], for energy accounting only (its
      force is part of `force`).
    - `parameters`: any pytree of numbers, handed to every function as `p`. Changing its
      values does not recompile, and gradients flow through them.
    - `coordinate_names`, `constraint_names`: used in messages and results.

    No derivative is asked for: G, gamma and every other one comes from AD.
    """

    p: Any
    _mass: Callable = eqx.field(static=True)
    _force: Callable = eqx.field(static=True)
    _constraint: Callable | None = eqx.field(static=True)
    _nonholonomic: Callable | None = eqx.field(static=True)
    _reaction_force: Callable | None = eqx.field(static=True)
    _potential: Callable | None = eqx.field(static=True)
    _coordinate_names: tuple[str, ...] | None = eqx.field(static=True)
    _constraint_names: tuple[str, ...] | None = eqx.field(static=True)
    _redundant: bool = eqx.field(static=True)
    _sturdy: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        mass: Callable,
        force: Callable,
        constraint: Callable | None = None,
        nonholonomic: Callable | None = None,
        reaction_force: Callable | None = None,
        potential: Callable | None = None,
        parameters: PyTree = None,
        coordinate_names: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
    ):
        _check_callable("mass", mass, "q, p")
        _check_callable("force", force, "q, v, t, p")
        if constraint is not None:
            _check_callable("constraint", constraint, "q, t, p")
        if nonholonomic is not None:
            _check_callable("nonholonomic", nonholonomic, "q, v, t, p")
        if reaction_force is not None:
            _check_callable("reaction_force", reaction_force, "q, v, t, lam, p")
            if constraint is None and nonholonomic is None:
                raise ValueError(
                    "FunctionSystem: reaction_force is given, but there are no constraints whose "
                    "multipliers it could depend on. Put it into force."
                )
        if potential is not None:
            _check_callable("potential", potential, "q, p")
        self._mass, self._force, self._constraint = mass, force, constraint
        self._nonholonomic, self._potential = nonholonomic, potential
        self._reaction_force = reaction_force
        self._coordinate_names = _names_given("coordinate_names", coordinate_names)
        self._constraint_names = _names_given("constraint_names", constraint_names)
        self._redundant = self._sturdy = False
        self.p = _numbers({} if parameters is None else parameters)

    def parameters(self) -> dict[str, Array]:
        """The numbers handed to the functions, by name; nested ones as ``"spring.stiffness"``."""
        return {_path(path): x for path, x in jax.tree_util.tree_leaves_with_path(self.p)}

    def with_parameters(
        self, changes: Mapping[str, Any] | None = None, **more: Any
    ) -> FunctionSystem:
        """This system with some of its parameters replaced, which may be traced."""
        wanted = {**(changes or {}), **more}
        if isinstance(self.p, dict):  # entries as they were given, whatever is in them
            whole = {name: wanted.pop(name) for name in list(wanted) if name in self.p}
            new = {name: whole.get(name, old) for name, old in self.p.items()}
        else:
            new = self.p
        known = [_path(path) for path, _ in jax.tree_util.tree_leaves_with_path(new)]
        unknown = sorted(set(wanted) - set(known))
        if unknown:
            raise KeyError(
                f"FunctionSystem has no parameter {listed(map(repr, unknown))}; it has "
                f"{listed(map(repr, known)) or 'none'}."
            )
        new = jax.tree_util.tree_map_with_path(lambda path, x: wanted.get(_path(path), x), new)
        return eqx.tree_at(lambda s: s.p, self, _numbers(new))

    @property
    def position_size(self) -> int | None:
        return None if self._coordinate_names is None else len(self._coordinate_names)

    def with_redundant_constraints(self) -> FunctionSystem:
        return changed(self, _redundant=True)

    @property
    def has_redundant_constraints(self) -> bool:
        return self._redundant

    @property
    def has_nonholonomic_constraints(self) -> bool:
        return self._nonholonomic is not None

    def sturdier(self) -> FunctionSystem | None:
        return None if self._sturdy else changed(self, _sturdy=True)

    def time_breaks(self) -> np.ndarray:
        functions = (self._force, self._constraint, self._nonholonomic, self._reaction_force)
        found = [x.breaks for f in functions if f is not None for x in signals_in(f)]
        return np.unique(np.concatenate(found)) if found else np.zeros(0)

    def has_unannounced_times(self, nq: int) -> bool:
        names = ("force", "constraint", "nonholonomic", "reaction_force")
        return any(self._timed(name, nq) for name in names)

    def moving_constraints(self, nq: int) -> FunctionSystem | None:
        moving = self._timed("constraint", nq) or self._timed("nonholonomic", nq)
        return self if moving else None

    def _timed(self, name: str, nq: int) -> bool:
        """Whether one of the functions, of `nq` coordinates, depends on the time explicitly."""
        function = getattr(self, f"_{name}")
        if function is None:
            return False
        leaves, structure = jax.tree.flatten(self.p)
        rows = self._rows(nq) if name == "reaction_force" else 0
        shapes = tuple(jnp.shape(x) for x in leaves)
        return _uses_time(function, name, nq, rows, shapes, structure)

    def _rows(self, nq: int) -> int:
        """The number of constraint rows."""
        x, t = jax.ShapeDtypeStruct((nq,), float), jax.ShapeDtypeStruct((), float)
        return jax.eval_shape(self.constraint_rate, x, x, t).shape[0]

    def qdot(self, q: Position, v: Velocity) -> Position:
        return v

    def retract(self, q: Position, step: Velocity) -> Position:
        return q + step

    def difference(self, start: Position, end: Position) -> Velocity:
        return end - start

    def increment_rate(self, step: Velocity, rate: Velocity) -> Velocity:
        return rate

    def extent(self, q: Position) -> Velocity:
        return jnp.abs(q)

    def velocity_size(self, nq: int) -> int:
        self.coordinate_names(nq)  # refuses a q for which there are too few names or too many
        return nq

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        names = self.coordinate_names(nq)
        if isinstance(item, str):
            if item not in names:
                raise ValueError(
                    f"There is no coordinate {shown(item)} to hold; there are {listed(names)}."
                )
            return [names.index(item)]
        if not -nq <= item < nq:
            raise ValueError(
                f"There is no coordinate {item} to hold; there are {nq}, counted from 0."
            )
        return [item % nq]

    def normalize(self, q: Position) -> Position:
        return q

    def _mass_value(self, q: Array) -> Array:
        return _called(self._mass, q, self.p)

    def mass_matrix(self, q: Position) -> SquareMatrix:
        mass = self._mass_value(q)
        return jnp.diag(mass) if mass.ndim == 1 else mass

    def momentum(self, q: Position, v: Velocity) -> Force:
        mass = self._mass_value(q)
        return mass * v if mass.ndim == 1 else mass @ v

    def force(self, q: Position, v: Velocity, t: Time) -> Force:
        return _called(self._force, q, v, t, self.p)

    @property
    def has_reaction_forces(self) -> bool:
        return self._reaction_force is not None

    def reaction_force(self, q: Position, v: Velocity, t: Time, lam: Multipliers) -> Force:
        if self._reaction_force is None:
            return jnp.zeros_like(v)
        return _called(self._reaction_force, q, v, t, lam, self.p)

    def seen_rows(self, rows: int) -> Indices:
        return Indices.of(range(rows))

    def reaction_force_names(self) -> list[str]:
        return ["reaction_force"] if self.has_reaction_forces else []

    def potential_energy(self, q: Position) -> Scalar:
        if self._potential is None:
            return jnp.zeros((), q.dtype)
        return jnp.asarray(self._potential(q, self.p))

    @property
    def has_potential(self) -> bool:
        """Whether a potential energy was given."""
        return self._potential is not None

    def constraint(self, q: Position, t: Time) -> PerRow:
        if self._constraint is None:
            return jnp.zeros((0,), q.dtype)
        return _called(self._constraint, q, t, self.p)

    def _holonomic_rate(self, q: Array, v: Array, t: Array) -> Array:
        t = jnp.asarray(t, q.dtype)
        return jax.jvp(self.constraint, (q, t), (v, jnp.ones_like(t)))[1]

    def _nonholonomic_rate(self, q: Array, v: Array, t: Array) -> Array:
        if self._nonholonomic is None:
            return jnp.zeros((0,), q.dtype)
        return _called(self._nonholonomic, q, v, t, self.p)

    def constraint_rate(self, q: Position, v: Velocity, t: Time) -> PerRow:
        if self._nonholonomic is None:
            return self._holonomic_rate(q, v, t)
        return jnp.concatenate([self._holonomic_rate(q, v, t), self._nonholonomic_rate(q, v, t)])

    def gamma(self, q: Position, v: Velocity, t: Time) -> PerRow:
        t = jnp.asarray(t, q.dtype)
        along = lambda q, t: self.constraint_rate(q, v, t)  # noqa: E731
        return -jax.jvp(along, (q, t), (v, jnp.ones_like(t)))[1]

    def jacobian(self, q: Position, t: Time) -> Jacobian:
        return self._jacobian(q, t, "all")

    def _jacobian(self, q: Array, t: Array, rows: Rows) -> Array:
        G = jacobian(lambda x: self.constraint(x, t), q, short=True)
        if rows == "holonomic" or self._nonholonomic is None:
            return G
        A = jacobian(lambda x: self._nonholonomic_rate(q, x, t), jnp.zeros_like(q), short=True)
        return jnp.concatenate([G, A])

    def constraint_force(self, q: Position, t: Time, lam: Multipliers) -> Force:
        return self.jacobian(q, t).T @ lam

    def factor(
        self,
        q: Position,
        t: Time,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> DenseFactor:
        G = self._jacobian(q, t, rows)
        mass = self._mass_value(q) if metric == "mass" else None
        G, mass = optimization_barrier((G, mass))
        return DenseFactor(G, inverse_mass(mass), shift, redundant=self._redundant)

    def step_solver(self, level: Level, augment: Any = None) -> FunctionSolver | None:
        if self._sturdy or self._redundant or self._reaction_force is not None:
            return None
        return FunctionSolver(partial(self._step_slopes, level), augment)

    def _step_slopes(self, level: Level, at: StepPoint, weights: StepWeights) -> DenseSlopes:
        q, v, t, a, lam = at

        def motion(q: Array, v: Array) -> Array:
            inertia = self.momentum(q, a) - self.force(q, v, t)
            return inertia + self.constraint_force(q, t, lam)

        damping = jacobian(lambda x: motion(q, x), v, short=True)
        stiffness = None
        if not weights.still:
            stiffness = jacobian(lambda x: motion(x, v), q, short=True)
        G = self.jacobian(q, t)
        parts = self.mass_matrix(q), damping, stiffness, G
        if level == "acceleration":
            rest = lambda q, v: self.jacobian(q, t) @ a - self.gamma(q, v, t)  # noqa: E731
            by_pose = jacobian(lambda x: rest(x, v), q, short=True)
            by_velocity = jacobian(lambda x: -self.gamma(q, x, t), v, short=True)
            return DenseSlopes(*parts, speed=G, drift=by_pose, pull=by_velocity)
        there, share, speed = G, 1.0, 1.0
        if weights.end is not None:
            (q, v, t), share, speed = weights.end[:3], weights.end.share, weights.end.speed
            there = self.jacobian(q, t)
        held = jax.eval_shape(self.constraint, q, t).shape[0]
        drift = None
        if level != "position" or held < len(G):
            drift = share * jacobian(lambda x: self.constraint_rate(x, v, t), q, short=True)
        slopes = DenseSlopes(*parts, speed=speed * there, drift=drift)
        if level == "velocity":
            return slopes
        place = share * there[:held]
        return slopes._replace(**{"place" if level == "position" else "positions": place})

    def coordinate_names(self, n: int) -> list[str]:
        return _names(self._coordinate_names, "coordinate", "q", n)

    def velocity_names(self, n: int) -> list[str]:
        return self.coordinate_names(n)

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        return [] if bool(jnp.all(jnp.isfinite(self.force(q, v, t)))) else ["force"]

    def constraint_names(self, rows: int) -> list[str]:
        return _names(self._constraint_names, "constraint", "constraint", rows)


@lru_cache(maxsize=256)
def _uses_time(function: Any, name: str, nq: int, rows: int, shapes: Any, structure: Any) -> bool:
    """Whether a user's function of (q, t, p), (q, v, t, p) or (q, v, t, lam, p) depends on t."""
    of = lambda shape: jax.ShapeDtypeStruct(shape, float)  # noqa: E731
    parameters = structure.unflatten([of(shape) for shape in shapes])
    state = [of((nq,))] if name == "constraint" else [of((nq,)), of((nq,))]
    lam = [of((rows,))] if name == "reaction_force" else []
    return depends(function, (*state, of(()), *lam, parameters), len(state))


@partial(jax.jit, static_argnums=0)
def _called(function: Any, *arguments: Any) -> Array:
    """A user's function; inside a jit it is traced and differentiated once, not at each use."""
    return jnp.asarray(function(*arguments))


def _names(given: tuple[str, ...] | None, what: str, stem: str, n: int) -> list[str]:
    if given is None:
        return [f"{stem}[{i}]" for i in range(n)]
    if len(given) != n:
        raise ValueError(
            f"FunctionSystem: {what}_names has {len(given)} names ({listed(given)}) for {n} "
            f"{what}s. Give one name for each."
        )
    return list(given)


def _names_given(what: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names as a tuple, or one message about what is wrong with them."""
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"FunctionSystem: {what}={shown(names)} must be a list of strings, one for each."
        )
    return tuple(names)


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _numbers(parameters: Any) -> Any:
    """The parameters as arrays; refuses by name what is no finite number."""

    def array(path: Any, value: float | np.ndarray | Array) -> Array:
        name = f"parameter {_path(path)!r}"
        try:
            x = as_array(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"FunctionSystem: {name} is {shown(value)}. Give numbers or arrays of numbers."
            ) from None
        if not isinstance(x, Tracer) and not np.all(np.isfinite(x)):
            raise ValueError(
                f"FunctionSystem: {name} is {shown(value)}, which is not finite. Give finite "
                "numbers."
            )
        return x

    try:
        jax.tree.structure(parameters)
    except Exception:  # keys of a dictionary that have no order
        raise TypeError(
            f"FunctionSystem: parameters={shown(parameters)} cannot be taken apart. Give numbers "
            "or arrays, in any nesting of dictionaries with strings for keys, lists and tuples."
        ) from None
    return jax.tree_util.tree_map_with_path(array, parameters)
