"""Random mechanisms either move as mechanics says, or stop and say why.

Each structure below fixes which bodies and joints there are; all numbers are drawn: masses,
inertias, places and axes of joints, stiffnesses over six decades, gravity, the initial pose and
velocities. Draws of one structure share their compiled programs. Joints are placed at common points
of the described configuration, so every loop closes. Nothing dissipates, so energy is conserved.
"""

import copy
import itertools
import zlib
from collections.abc import Callable

import numpy as np
import pytest

import holonax as hx
from holonax.result.reactions import reaction
from sections import in_part

RTOL = 1e-6
T_END = 1.0
STATUSES = {
    "singular",
    "step too small",
    "not converged",
    "non-finite",
    "blow-up",
    "constraint blow-up",
    "lost branch",
}

# -- numbers ---------------------------------------------------------------------------------


class Draw:
    """Random numbers of one mechanism, and the model they go into."""

    def __init__(self, name: str, seed: int):
        self.rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
        self.speed = 1.0  # of the bodies at the start
        self.model = hx.Model(gravity=self.vector(3) * self.rng.uniform(0, 15) / np.sqrt(3))
        # every other mechanism is stiff: its stiff springs are up to 1e6 times the others
        self.ratio = 10 ** self.rng.uniform(0, 6) if seed % 2 else 1.0

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def vector(self, d: int) -> np.ndarray:
        return self.rng.standard_normal(d)

    def unit(self, d: int) -> np.ndarray:
        x = self.vector(d)
        return x / np.linalg.norm(x)

    def normal(self, direction: np.ndarray) -> np.ndarray:
        """A unit vector of space normal to `direction`."""
        x = np.cross(direction, self.vector(3))
        return x / np.linalg.norm(x)

    def mass(self) -> float:
        return 10 ** self.between(-0.7, 0.7)

    def soft(self) -> float:
        """A stiffness [N/m or N m/rad] with which a body of 1 kg swings about once a second."""
        return 10 ** self.between(1, 2)

    def stiff(self) -> float:
        return self.soft() * self.ratio

    def planar(self, name: str, *points: np.ndarray) -> str:
        """A planar body with its centre of mass somewhere between the given points."""
        mass = self.mass()
        self.model.planar_body(
            name,
            mass,
            mass * self.between(0.1, 0.4) ** 2,
            position=self._amid(points, 2),
            angle=self.between(-np.pi, np.pi),
            velocity=self.speed * self.vector(2),
            angular_velocity=3 * self.speed * self.vector(1)[0],
        )
        return name

    def spatial(self, name: str, *points: np.ndarray) -> str:
        """A spatial body with its centre of mass somewhere between the given points."""
        mass = self.mass()
        a, b, c = self.rng.uniform(0.2, 0.9, 3) ** 2
        principal = np.linalg.qr(self.rng.standard_normal((3, 3)))[0]
        inertia = principal @ np.diag([b + c, a + c, a + b]) @ principal.T * mass / 12
        self.model.body(
            name,
            mass,
            (inertia + inertia.T) / 2,
            position=self._amid(points, 3),
            rotation=self.unit(4),
            velocity=self.speed * self.vector(3),
            angular_velocity=2 * self.speed * self.vector(3),
        )
        return name

    def _amid(self, points: tuple[np.ndarray, ...], d: int) -> np.ndarray:
        return np.mean([x[:d] for x in points], axis=0) + 0.1 * self.vector(d)

    def quadrangle(self) -> np.ndarray:
        """Four corners of the plane, none nearly in line with its neighbours; (4, 2)."""
        angles = np.linspace(0, 2 * np.pi, 4, endpoint=False) + self.rng.uniform(-0.5, 0.5, 4)
        size = self.rng.uniform(0.3, 0.8, 4)
        return size[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])

    def spring(self, name: str, a: str, b: str, at: tuple, stiffness: float) -> None:
        """A spring between two points, under a load of some newtons whatever its stiffness."""
        length = np.linalg.norm(np.subtract(*at)) + 5 * self.vector(1)[0] / stiffness
        self.model.spring_damper(name, a, b, at=at, stiffness=stiffness, length=max(length, 0.05))


# -- structures: planar ----------------------------------------------------------------------


def planar_tree(d: Draw) -> None:
    """Pins and a slide, with springs along the slide, in a pin, and to the ground."""
    p = [d.vector(2) * 0.6 for _ in range(6)]
    a, b = d.planar("a", p[0], p[1]), d.planar("b", p[1], p[2])
    c, e = d.planar("c", p[2], p[3]), d.planar("e", p[1], p[4])
    axis = d.unit(2)
    d.model.revolute("shoulder", "ground", a, at=p[0])
    d.model.prismatic("slide", a, b, at=p[1], axis=axis)
    d.model.revolute("elbow", b, c, at=p[2])
    d.model.revolute("branch", a, e, at=p[4])
    d.model.torsion_spring("coil", joint="branch", stiffness=d.stiff())
    d.spring("along the slide", a, b, (p[1] - 0.5 * axis, p[1] + 0.5 * axis), d.stiff())
    d.spring("to the ground", "ground", c, (p[5], p[3]), d.soft())


def planar_frame(d: Draw) -> None:
    """Welded bodies on a massless rod, one more on an elastic mounting, a wheel geared to it."""
    p = [d.vector(2) * 0.6 for _ in range(5)]
    a, b, c = d.planar("a", p[0], p[1]), d.planar("b", p[1], p[2]), d.planar("c", p[2], p[3])
    wheel = d.planar("wheel", p[4])
    d.model.fixed("weld", a, b)
    d.model.distance("rod", "ground", a, at=(p[0] + d.unit(2), p[0]))
    k = d.stiff()
    d.model.bushing("mounting", b, c, at=p[2], axes=d.unit(2), stiffness=(k, 3 * k, 0.1 * k))
    d.model.revolute("axle", c, wheel, at=p[4])
    d.model.gear("teeth", b, wheel, carrier=c, ratio=d.between(0.5, 2))
    d.spring("to the ground", "ground", b, (p[3], p[1]), d.soft())


def four_bar(d: Draw) -> None:
    """A loop of four pins."""
    corners = d.quadrangle()
    bodies = ["ground", *(d.planar(n, *corners[i : i + 2]) for i, n in enumerate("abc")), "ground"]
    for i, corner in enumerate(corners):
        d.model.revolute(f"pin {i}", bodies[i], bodies[i + 1], at=corner)
    d.spring("to the ground", "ground", "b", (d.vector(2), corners[1]), d.stiff())
    d.model.torsion_spring("coil", joint="pin 2", stiffness=d.soft())


def quick_return(d: Draw) -> None:
    """Crank, slotted rocker, rod and slider: two loops, with a slot and a slide."""
    shaft, pivot = np.array([0.0, 0.0]), np.array([0.0, -d.between(0.5, 0.8)])
    pin, end = d.between(0.2, 0.4) * d.unit(2), np.array([d.between(-0.2, 0.2), 0.7])
    wrist = end + d.between(0.5, 0.8) * np.array([1.0, d.between(-0.4, 0.4)])
    crank, rocker = d.planar("crank", shaft, pin), d.planar("rocker", pivot, end)
    rod, slider = d.planar("rod", end, wrist), d.planar("slider", wrist)
    d.model.revolute("shaft", "ground", crank, at=shaft)
    d.model.revolute("pivot", "ground", rocker, at=pivot)
    d.model.pin_in_slot("slot", rocker, crank, at=pin, direction=pin - pivot)
    d.model.revolute("end", rocker, rod, at=end)
    d.model.revolute("wrist", rod, slider, at=wrist)
    d.model.prismatic("guide", "ground", slider, at=wrist, axis=(1.0, d.between(-0.2, 0.2)))
    d.spring("buffer", "ground", slider, (wrist + np.array([1.0, 0.0]), wrist), d.stiff())


def elastic_chain(d: Draw) -> hx.Start:
    """Bodies hung on springs as stiff as rods, which are loaded as those would be.

    The start is that of the same chain with rods, so the springs hardly vibrate: the motion is
    slow, and stiff.
    """
    p = [d.vector(2) * 0.6 for _ in range(5)]
    a, b, c = d.planar("a", p[1], p[2]), d.planar("b", p[2], p[3]), d.planar("c", p[3], p[4])
    d.model.revolute("pivot", b, c, at=p[4])
    ends = {"upper": ("ground", a, (p[0], p[1])), "lower": (a, b, (p[2], p[3]))}
    rods = copy.deepcopy(d.model)
    for name, (first, second, at) in ends.items():
        rods.distance(name, first, second, at=at)
    system, start = rods.build()
    q, lam = np.asarray(start.q)[None], np.asarray(start.lam)[None]
    for name, (first, second, at) in ends.items():
        along, k = at[1] - at[0], 10 ** d.between(4, 8)
        length = np.linalg.norm(along)
        force = reaction(system, name, np.zeros(1), q, lam, "world").force[0]
        push = force @ along / length
        d.model.spring_damper(name, first, second, at=at, stiffness=k, length=length + push / k)
    return start


def _bars(d: Draw, feet: np.ndarray, coil: float, spring: float) -> None:
    """Equal parallel bars on the given feet carry one body; `coupler` moves without turning."""
    up = d.between(0.3, 0.7) * d.unit(2)
    d.planar("coupler", *(feet + up))
    for i, foot in enumerate(feet):
        bar = d.planar(f"bar {i}", foot, foot + up)
        d.model.revolute(f"foot {i}", "ground", bar, at=foot)
        d.model.revolute(f"top {i}", bar, "coupler", at=foot + up)
    d.model.torsion_spring("coil", joint="foot 0", stiffness=coil)
    d.spring("to the ground", "ground", "coupler", (feet[0] + 3 * up, feet[0] + up), spring)


def three_bars(d: Draw) -> None:
    """Three parallel bars whose feet are not in line: one is too many, in every position."""
    _bars(d, d.quadrangle()[:3], d.soft(), d.stiff())


def parallelogram(d: Draw) -> None:
    """Two parallel bars, fast: where they lie in line with the coupler its motion may branch."""
    d.speed = 4.0
    _bars(d, d.quadrangle()[:2], 0.01 * d.soft(), 0.1 * d.soft())


# -- structures: spatial ---------------------------------------------------------------------


def spatial_tree(d: Draw) -> None:
    """A hinge, a Cardan joint and two ball joints, with springs."""
    p = [d.vector(3) * 0.6 for _ in range(6)]
    a, b = d.spatial("a", p[0], p[1]), d.spatial("b", p[1], p[2])
    c, e = d.spatial("c", p[2], p[3]), d.spatial("e", p[1], p[4])
    arm = d.unit(3)
    d.model.revolute("hinge", "ground", a, at=p[0], axis=d.unit(3))
    d.model.universal("cross", a, b, at=p[1], axes=(arm, d.normal(arm)))
    d.model.spherical("ball", b, c, at=p[2])
    d.model.spherical("branch", a, e, at=p[4])
    d.spring("strut", a, c, (p[0], p[3]), d.stiff())
    d.spring("to the ground", "ground", e, (p[5], p[1]), d.soft())


def spatial_slides(d: Draw) -> None:
    """A slide, a sleeve, a screw and a plane, one on the other, with a spring along each."""
    p = [d.vector(3) * 0.6 for _ in range(5)]
    u = [d.unit(3) for _ in range(4)]
    names = ["ground", *(d.spatial(n, p[i]) for i, n in enumerate("abce"))]
    pairs = list(itertools.pairwise(names))
    d.model.prismatic("slide", *pairs[0], at=p[0], axis=u[0])
    d.model.cylindrical("sleeve", *pairs[1], at=p[1], axis=u[1])
    d.model.screw("screw", *pairs[2], at=p[2], axis=u[2], pitch=d.between(0.1, 0.5))
    d.model.planar_joint("plane", *pairs[3], at=p[3], axis=u[3])
    for i, (a, b) in enumerate(pairs):
        k = d.stiff() if i % 2 else d.soft()
        d.spring(f"spring {i}", a, b, (p[i] - 0.5 * u[i], p[i] + 0.5 * d.unit(3)), k)


def spatial_slider_crank(d: Draw) -> None:
    """A crank and a slider in general position, a rod with a ball and a Cardan joint between."""
    shaft, pin, wrist = np.zeros(3), 0.4 * d.unit(3), 1.2 * d.unit(3)
    crank, rod = d.spatial("crank", shaft, pin), d.spatial("rod", pin, wrist)
    slider = d.spatial("slider", wrist)
    arm = d.unit(3)
    d.model.revolute("shaft", "ground", crank, at=shaft, axis=d.normal(pin))
    d.model.spherical("pin", crank, rod, at=pin)
    d.model.universal("wrist", rod, slider, at=wrist, axes=(arm, d.normal(arm)))
    d.model.prismatic("guide", "ground", slider, at=wrist, axis=wrist + 0.3 * d.vector(3))
    d.spring("buffer", "ground", slider, (wrist + d.unit(3), wrist), d.stiff())


def spatial_four_bar(d: Draw) -> None:
    """A loop of four parallel hinges in space: three of its constraints are too many."""
    plane = np.linalg.qr(d.rng.standard_normal((3, 3)))[0]
    normal = plane[:, 2]
    corners = d.quadrangle() @ plane[:, :2].T + 0.1 * np.outer(d.vector(4), normal)
    bodies = ["ground", *(d.spatial(n, *corners[i : i + 2]) for i, n in enumerate("abc")), "ground"]
    for i, corner in enumerate(corners):
        d.model.revolute(f"hinge {i}", bodies[i], bodies[i + 1], at=corner, axis=normal)
    d.spring("to the ground", "ground", "b", (d.vector(3), corners[1]), d.stiff())


def door(d: Draw) -> None:
    """A door on two hinges, a ball on it whose far end rests on a plane of the ground."""
    axis = d.unit(3)
    low, side = 0.3 * d.vector(3), d.normal(axis)
    high, handle = low + d.between(0.5, 1.5) * axis, low + d.between(0.4, 0.8) * side
    far = handle + 0.5 * d.unit(3)
    leaf, stick = d.spatial("leaf", low, high, handle), d.spatial("stick", handle, far)
    for name, at in (("low", low), ("high", high)):
        d.model.revolute(name, "ground", leaf, at=at, axis=axis)
    d.model.spherical("ball", leaf, stick, at=handle)
    d.model.point_on_plane("floor", "ground", stick, at=far, axis=d.unit(3))
    d.spring("closer", "ground", leaf, (handle + d.vector(3), handle), d.soft())
    d.spring("catch", "ground", stick, (far + d.unit(3), far), d.stiff())


# -- methods ---------------------------------------------------------------------------------

AUTO = {"method": "auto", "rtol": RTOL}
EQUAL = {"dt": 1e-3}
PROJECTED = {"formulation": hx.CoordinateProjection(), "rtol": RTOL}
GGL_BDF = {"formulation": hx.GGL(), "integrator": hx.VariableBDF(), "rtol": RTOL}
GGL_RADAU = {"formulation": hx.GGL(), "integrator": hx.RadauIIA(), "rtol": RTOL}

# Each structure with another method for a part of its draws.
STRUCTURES: dict[str, tuple[Callable[[Draw], hx.Start | None], dict]] = {
    make.__name__: (make, other)
    for make, other in (
        (planar_tree, GGL_BDF),
        (planar_frame, GGL_BDF),
        (four_bar, GGL_RADAU),
        (quick_return, EQUAL),
        (elastic_chain, PROJECTED),
        (three_bars, PROJECTED),
        (parallelogram, GGL_BDF),
        (spatial_tree, PROJECTED),
        (spatial_slides, EQUAL),
        (spatial_slider_crank, GGL_BDF),
        (spatial_four_bar, EQUAL),
        (door, PROJECTED),
    )
}


def mechanism(name: str, seed: int) -> tuple[hx.System, hx.Start]:
    """The mechanism of a structure with the numbers that belong to a seed."""
    draw = Draw(name, seed)
    start = STRUCTURES[name][0](draw)
    if start is None:
        return draw.model.build()
    system = draw.model.system()
    return system, hx.consistent(system, start.q, start.v)


# -- what has to hold ------------------------------------------------------------------------


def energy_error(run: hx.Result) -> tuple[float, float]:
    """The largest change of the energy [J], and what the error control allows.

    The error of a step is bounded in the root mean square over n positions and n velocities, so
    one velocity, with all of the kinetic energy T in a mechanism of one degree of freedom, may be
    off by sqrt(2n) rtol: a change of 2 sqrt(2n) rtol T. An error of the positions is worth as much
    in an oscillation, where both exchange their energy. Errors of all steps may go one way. Energy
    is an invariant: what a step has changed stays, but does not grow.
    """
    energy = run.energy
    change = float(np.max(np.abs(energy.total - energy.total[0])))
    exchanged = float(np.max(energy.kinetic) + np.ptp(energy.potential))
    return change, 2 * np.sqrt(2 * run.v.shape[1]) * RTOL * exchanged * run.t.size


def violations(run: hx.Result, *, controlled: bool) -> list[str]:
    """What a run gets wrong; nothing, for one that fails honestly."""
    found = []
    arrays = (run.t, run.q, run.v, run.energy.total)
    if not all(np.all(np.isfinite(x)) for x in arrays):
        found.append("numbers that are not finite")
    if run.success != (run.status == "end"):
        found.append(f"success={run.success} with status {run.status!r}")
    if run.success and run.t[-1] != T_END:
        found.append(f"success at t = {run.t[-1]}")
    if not run.success:
        if run.status not in STATUSES:
            found.append(f"status {run.status!r}")
        words = ("stopped at t = ", "in the step to t = ", "All states before it are returned")
        found += [f"no {word!r} in {run.message!r}" for word in words if word not in run.message]
    position, rate = run.drift()
    if position.max(initial=0) > 1e-11 or rate.max(initial=0) > 1e-11 * (1 + np.abs(run.v).max()):
        found.append(f"drift {position.max():.1e}, {rate.max():.1e}")
    if controlled:
        change, allowed = energy_error(run)
        if not change <= allowed:
            found.append(f"energy changes by {change:.1e} J, allowed are {allowed:.1e} J")
    return found


def leaves_its_branch(run: hx.Result) -> list[str]:
    """Parallel bars carry their coupler without turning it, also across a flat configuration.

    There a rotation that rounding allows, of the order of its square root, is met by the bound.
    """
    angle = run.q[:, run.system.coordinate_names(run.q.shape[1]).index("coupler.angle")]
    turned = float(np.ptp(angle))
    return [f"the coupler turns by {turned:.1e} rad"] if turned > 1e-6 else []


def check(name: str, draws: range, *, others: bool) -> None:
    """Simulate mechanisms of a structure, one in eight by its other method too."""
    found, compiled = [], {"auto": 0, "other": 0}
    for seed in draws:
        system, start = mechanism(name, seed)
        methods = {"auto": AUTO}
        if others and seed % 8 == 0:  # even ones are not very stiff
            methods["other"] = STRUCTURES[name][1]
        for method, options in methods.items():
            run = hx.simulate(system, start, T_END, **options)
            compiled[method] += run.stats["compiled"]
            problems = violations(run, controlled="rtol" in options)
            if "coupler.angle" in system.coordinate_names(start.q.size):
                problems += leaves_its_branch(run)
            found += [f"{name} {seed}, {method}: {problem}" for problem in problems]
    assert not found, "\n".join(found)
    # one program for each method; the automatic choice has an explicit and an implicit one
    assert compiled["auto"] <= 2 and compiled["other"] <= 1


# Two loops that compile in some seconds, the second with a bar too many.
@pytest.mark.parametrize("name", in_part(["four_bar", "three_bars"], {"three_bars"}))
def test_a_few_random_mechanisms_move_as_they_should_or_stop_and_say_why(name):
    check(name, range(10), others=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_random_mechanisms_move_as_they_should_or_stop_and_say_why(name):
    check(name, range(40), others=True)
