"""What a simulation returns: arrays with names, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

from .consistent import Start
from .diagnosis import DENSE_LIMIT
from .formulation import StepContext
from .system.base import System
from .system.dense import smallest_multipliers

_CHUNK = 256


@eqx.filter_jit
def _mapped(fun: Any, system: System, extra: Any, t: Any, q: Any, v: Any) -> Any:
    return jax.lax.map(lambda x: fun(system, extra, *x), (t, q, v))


def _constraints(system: System, extra: Any, t: Any, q: Any, v: Any) -> tuple[Any, Any]:
    return system.constraint(q, t), system.constraint_rate(q, v, t)


def _energies(system: System, extra: Any, t: Any, q: Any, v: Any) -> tuple[Any, Any]:
    return system.kinetic_energy(q, v), system.potential_energy(q)


def _power(system: System, extra: Any, t: Any, q: Any, v: Any) -> Any:
    return system.external_power(q, v, t)


def _accelerations(system: System, extra: Any, t: Any, q: Any, v: Any) -> tuple[Any, Any]:
    formulation, dt = extra
    a, lam = formulation.accelerations(StepContext(system, dt), t, (q, v))
    if system.has_redundant_constraints and v.shape[0] <= DENSE_LIMIT:
        lam = smallest_multipliers(system.jacobian(q, t), lam)
    return a, lam


@dataclass(frozen=True)
class Energy:
    """Energies over time [J]; `work` is that done by everything without a potential."""

    kinetic: np.ndarray
    potential: np.ndarray
    work: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential

    @property
    def balance(self) -> np.ndarray:
        """Total energy minus its start and the work done: zero for an exact solution."""
        return self.total - self.total[0] - self.work


@dataclass(eq=False)
class Result:
    """A trajectory and how it came about.

    `t` (n,), `q` (n, nq), `v` (n, nv) are the saved states; `lam` (n, rows) the multipliers and `a`
    (n, nv) the accelerations that belong to them. `success`, `message` and `stats` say how the
    run went. `result["name"]` gives the motion of a body.
    """

    system: System
    formulation: Any
    integrator: Any
    start: Start
    dt: float
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    success: bool
    message: str
    stats: dict[str, Any]
    solved: Any = None

    def _evaluate(self, fun: Any, extra: Any = None) -> Any:
        """`fun` at every saved state, compiled once for chunks of fixed size."""
        n = self.t.size
        pad = -n % min(_CHUNK, max(n, 1)) if n > _CHUNK else _CHUNK - n
        fill = lambda x: np.concatenate([x, np.repeat(x[-1:], pad, axis=0)])  # noqa: E731
        t, q, v = fill(self.t), fill(self.q), fill(self.v)
        parts = [
            jax.tree.map(
                np.asarray,
                _mapped(fun, self.system, extra, *(x[k : k + _CHUNK] for x in (t, q, v))),
            )
            for k in range(0, t.size, _CHUNK)
        ]
        return jax.tree.map(lambda *x: np.concatenate(x)[:n], *parts)

    @cached_property
    def _multipliers(self) -> np.ndarray | None:
        """The multipliers among what the method solved for; None if they are not."""
        if self.solved is None:
            return None
        solved = self.formulation.multipliers(self.solved.z.T, self.start.lam.shape[0])
        return None if solved is None else np.asarray(solved).T

    @cached_property
    def _accelerations(self) -> tuple[np.ndarray, np.ndarray]:
        return self._evaluate(_accelerations, (self.formulation, jnp.asarray(self.dt)))

    @property
    def a(self) -> np.ndarray:
        """Accelerations v' at the saved states, shape (n, nv)."""
        # A method whose multipliers belong to the middle of a step has accelerations of there too.
        if self.solved is None or self.integrator.multiplier_lag:
            return self._accelerations[0]
        return self.solved.a

    @property
    def lam(self) -> np.ndarray:
        """Multipliers at the times `t_lam`, shape (n, rows); M v' = f - G^T lam.

        For redundant constraints they are the minimum-norm ones.
        """
        return self._accelerations[1] if self._multipliers is None else self._multipliers

    @property
    def t_lam(self) -> np.ndarray:
        """The times the multipliers belong to [s]; the saved times for most methods."""
        if self._multipliers is None or not self.integrator.multiplier_lag:
            return self.t
        # The steps that end at a saved time are equal since the one saved before it.
        span = np.diff(self.t, prepend=self.start.t)
        step = span / np.maximum(np.ceil(span / self.dt * (1 - 1e-9)), 1.0)
        return self.t - self.integrator.multiplier_lag * step

    @property
    def condition(self) -> np.ndarray:
        """Condition number of the Newton matrix of each saved step; zero where not asked for."""
        return np.zeros_like(self.t) if self.solved is None else self.solved.condition

    def drift(self, norm: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """(|g|, |g'|) at every saved state, by default the largest component."""
        g, rate = self._evaluate(_constraints)
        size = lambda x: (  # noqa: E731
            np.linalg.norm(x, ord=norm, axis=1) if x.shape[1] else np.zeros(x.shape[0])
        )
        return size(g), size(rate)

    @cached_property
    def energy(self) -> Energy:
        """Kinetic and potential energy, and the work of forces without a potential [J].

        The work is integrated over the saved states (Simpson's rule), so it is as accurate as
        they are dense.
        """
        kinetic, potential = self._evaluate(_energies)
        power = self._evaluate(_power)
        if self.t.size < 2:
            work = np.zeros_like(power)
        else:
            work = scipy.integrate.cumulative_simpson(power, x=self.t, initial=0.0)
        return Energy(kinetic, potential, work)

    def momentum(self, about: Any = (0.0, 0.0, 0.0)) -> tuple[np.ndarray, np.ndarray]:
        """(linear, angular) momentum of all bodies, the angular one about the point `about`."""
        return self._mechanism("momentum").total_momentum(self.q, self.v, about)

    def __getitem__(self, name: str) -> Any:
        """The motion of the body `name`."""
        mechanism = self._mechanism("the motion of a body")
        mechanism.check_body(name)  # before accelerations are computed
        return mechanism.body_motion(name, self.q, self.v, self.a)

    def reaction(self, joint: str, axes: Literal["world", "joint"] = "world") -> Any:
        """Force [N] and torque [N m] that the joint applies to its second body, over time.

        The torque is about the joint's point on that body. `axes` are the world's, or the
        joint's own, fixed in its first body.
        """
        mechanism = self._mechanism("a reaction")
        mechanism.check_joint(joint, axes)  # before multipliers are computed
        lam = self._accelerations[1] if self.t_lam is not self.t else self.lam
        return mechanism.reaction(joint, self.t, self.q, lam, axes)

    def _mechanism(self, what: str) -> Any:
        if not hasattr(type(self.system), "body_motion"):
            raise TypeError(
                f"{what} needs a mechanism made with hx.Model; this result belongs to a "
                f"{type(self.system).__name__}, which knows coordinates only (use result.q)."
            )
        return self.system

    def __str__(self) -> str:
        energy = self.energy
        position, rate = self.drift()
        status = "success" if self.success else "FAILED"
        scale = max(abs(energy.total[0]), float(np.max(np.abs(energy.kinetic))), 1e-300)
        lines = [
            f"holonax result: {status}, {self.message}",
            f"  method      {self.formulation!r} with {type(self.integrator).__name__}"
            f", dt = {self.dt:g} s",
            f"  saved       {self.t.size} states, t = {self.t[0]:g} ... {self.t[-1]:g} s",
            f"  size        {self.q.shape[1]} coordinates, {self.lam.shape[1]} constraint rows",
            f"  drift       |g| <= {np.max(position, initial=0):.2e}, "
            f"|g'| <= {np.max(rate, initial=0):.2e}",
            f"  energy      {energy.total[0]:.6g} -> {energy.total[-1]:.6g} J, balance off by "
            f"{np.max(np.abs(energy.balance)) / scale:.1e} of the largest",
            f"  cost        {self.stats['steps']} steps in {self.stats['wall_time']:.3g} s"
            + (" (with compilation)" if self.stats["compiled"] else ""),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Result: {self.message}>"
