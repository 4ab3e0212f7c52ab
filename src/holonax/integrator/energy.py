"""Integrators with a discrete balance of energy: kept exactly, or never growing.

Both make the increment of position of mean velocities, q_1 = q_0 ⊞ d, and let forces, joints and
beams do exactly the work of that increment (`system/discrete.py`). With the mean velocity w of the
step, M (v_1 - v_0) . w is the change of kinetic energy, also that of rotations in body axes, whose
gyroscopic torque w x J w does no work.

The strains that section forces follow from are unknowns of their own, next to their definition, as
multipliers are: Newton's method then converges for steps in which a stiff beam would be torn by the
strain of its first iterates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..problem import FullState, StepContext
from ..system.base import Array, System
from ..system.discrete import (
    Path,
    beam_force,
    beam_loads,
    held_force,
    other_force,
    strain_rates,
    strains,
)
from ..system.timed import untimed
from .implicit import ImplicitStep
from .newton import NewtonCounts, Scaling
from .stage import scaled

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree


class _EnergyStep(ImplicitStep):
    """What the two share: constraints of position level at the end, velocity rows in between."""

    accepts: ClassVar[tuple[str, ...]] = ("index3",)
    multiplier_lag: ClassVar[float] = 0.5
    takes_varying_mass: ClassVar[bool] = False  # the balance of kinetic energy needs a constant one
    tolerance: float = eqx.field(static=True, default=1e-13, kw_only=True)

    def order(self, terms: ODETerm | None) -> int:
        return 2

    @staticmethod
    def _scaling(context: StepContext, start: Any, displacement: Array) -> Scaling | None:
        """As formulations do it; strains are of the size they should be."""
        found = scaled(context, displacement, displacement)
        if found is None or len(start) == 2:
            return found
        motion, force = found.rows[-2], found.columns[-2]
        more = [(motion, force) if x.ndim == 1 else (1.0, 1.0) for x in start[:-2]]
        rows, columns = zip(*more, strict=True)
        return found._replace(rows=(*rows, *found.rows), columns=(*columns, *found.columns))


def _other(system: System, path: Path, v: Array, z: Array) -> Array:
    """All forces but those of beams and constraints."""
    force = other_force(system, path, v)
    if system.has_reaction_forces:
        force = force + system.reaction_force(path.middle, v, path.t, z)
    return force


def _rows(system: System, context: StepContext, path: Path, v: Array, t1: Array) -> Array:
    """g at the end, and the velocity rows at the middle."""
    time, base = untimed(system, t1)
    g = base.constraint(path.end, time)
    rate = context.dt * base.constraint_rate(path.middle, v, path.t)[g.shape[0] :]
    scale = context.formulation.algebraic_scale(context)
    return jnp.concatenate([g, rate]) / scale


class EnergyPreserving(_EnergyStep):
    """The midpoint form whose discrete energy is constant, order 2.

        d = h (v_0 + v_1)/2,   M (v_1 - v_0)/h = f - D^T lam - D^T C (e_0 + e_1)/2,   g(q_1) = 0

    with discrete derivatives D of constraints and of the strains e of beams. Work of forces without
    a potential is that of the middle of the step; multipliers belong there. Nothing is damped:
    motions too fast for the step ring on, and constraint forces with them.
    """

    reference: ClassVar[str] = "Simo, Tarnow 1992; Gonzalez 1996; Bauchau 1998"

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        middle, system = untimed(args.system, t0 + 0.5 * h)
        before = strains(system, y0.q)

        def residual(x: tuple[Any, ...]) -> PyTree:
            *mean, a, z = x
            v = y0.v + 0.5 * h * a
            path = Path.of(system, y0.q, h * v, middle)
            after = strains(system, path.end)
            pairs = list(zip(before, after, strict=True))
            rate = [(f - i) / h for i, f in pairs]
            loads = beam_loads(system, mean, rate)
            dynamic = system.momentum(path.middle, a) - _other(system, path, v, z)
            dynamic = dynamic + held_force(system, path, z, loads)
            off = [m - 0.5 * (i + f) for m, (i, f) in zip(mean, pairs, strict=True)]
            return *off, dynamic, _rows(args.system, args, path, v, t1)

        start = (*before, y0.a, y0.z)
        (*_, a, z), solved, counts, condition = self._solve(
            residual, start, args, self._scaling(args, start, h * h / 2)
        )
        q = args.system.normalize(args.system.retract(y0.q, h * (y0.v + 0.5 * h * a)))
        y1 = FullState(q, y0.v + h * a, a, z, condition)
        return y1, None, {"y0": y0, "y1": y1}, solver_state + counts, solved


class EnergyDecaying(_EnergyStep):
    """The scheme whose discrete energy never grows, order 2.

    The strains e of beams and the velocities jump at the beginning of a step, from i to j, as in
    the time-discontinuous Galerkin method with linear shape functions (to which it comes down in
    linear problems, then of order 3 and with no memory of motions too fast for the step):

        d = h (v_f + v_j)/2                     M (v_f - v_i)/h = f - D^T lam - D^T (s_f + s_j)/2
        e_j = e_i - h (E_f v_f - E_i v_j)/6                       + (E_i - E_f)^T (s_f - s_j)/12
                                                M (v_j - v_i)/h = (E_i + E_f)^T (s_f - s_j)/12

    with section forces s, E at the configurations i and f, and discrete derivatives D between them.
    The energy loses that of the jumps. Then the velocity is brought onto the constraints by the
    shortest way in the mass metric, which takes kinetic energy as well and lets no constraint force
    ring. Springs and gravity do the work of the change of their energy.
    """

    reference: ClassVar[str] = "Bauchau, Theron 1996; Bauchau 1998"
    holds_velocity: ClassVar[bool] = True

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        middle, system = untimed(args.system, t0 + 0.5 * h)
        before = strains(system, y0.q)
        kinds = len(before)  # of beams; without one nothing jumps

        def velocities(x: tuple[Any, ...]) -> tuple[Array, Array]:
            return y0.v + h * x[-2], y0.v + h * x[-3] if kinds else y0.v

        def residual(x: tuple[Any, ...]) -> PyTree:
            a, z = x[-2:]
            vf, vj = velocities(x)
            v = 0.5 * (vf + vj)
            path = Path.of(system, y0.q, h * v, middle)
            balance = system.momentum(path.middle, a) - _other(system, path, v, z)
            rows = _rows(args.system, args, path, v, t1)
            if not kinds:
                return balance + held_force(system, path, z, []), rows
            mean, part, jump = x[:kinds], x[kinds : 2 * kinds], x[2 * kinds]
            after = strains(system, path.end)
            rates = zip(
                strain_rates(system, path.end, vf), strain_rates(system, y0.q, vj), strict=True
            )
            jumped = [e - h / 6 * (f - j) for e, (f, j) in zip(before, rates, strict=True)]
            ends = list(zip(after, jumped, strict=True))
            off = [m - 0.5 * (f + j) for m, (f, j) in zip(mean, ends, strict=True)]
            off += [p - (f - j) for p, (f, j) in zip(part, ends, strict=True)]
            rate = [(f - i) / h for i, f in zip(before, after, strict=True)]
            loads = beam_loads(system, list(mean), rate)
            spread = beam_loads(system, [p / 12 for p in part])
            first, last = (beam_force(system, q, spread) for q in (y0.q, path.end))
            balance = balance + held_force(system, path, z, loads) - (first - last)
            return *off, system.momentum(y0.q, jump) - (first + last), balance, rows

        nothing = [jnp.zeros_like(e) for e in before]
        start = (*before, *nothing, jnp.zeros_like(y0.a), y0.a, y0.z) if kinds else (y0.a, y0.z)
        found, solved, counts, condition = self._solve(
            residual, start, args, self._scaling(args, start, h * h / 2)
        )
        vf, vj = velocities(found)
        q = args.system.normalize(args.system.retract(y0.q, 0.5 * h * (vf + vj)))
        factor = args.system.factor(q, t1)
        rate = args.system.constraint_rate(q, vf, t1)
        change, push = factor.solve(jnp.zeros_like(vf), -rate)
        vf = vf + change
        y1 = FullState(q, vf, (vf - y0.v) / h, found[-1] + push / h, condition)
        return y1, None, {"y0": y0, "y1": y1}, solver_state + counts, solved
