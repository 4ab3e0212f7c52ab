"""The example programs pass their own checks; the ready mechanisms move as they should."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import holonax as hx
from holonax import examples as ready
from holonax.papers.ascher1995 import SQUEEZER
from references import SAMPLES, Samples, integrate, minimal, observed_order, rms, rods
from sections import in_part

matplotlib.use("Agg")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SETTINGS = {
    "demo": {"t_end": 0.5},
    "formulations": {"t_end": 2.0},
    "events": {},
    "identification": {},
    "coupler_path": {},
    "swing_up": {},
}
SEARCHES = ("identification", "coupler_path", "swing_up")  # many runs with their derivatives
PICTURES = {
    "demo": ("demo.png", "demo.gif"),
    "events": ("events.png",),
    **{name: (f"{name}.png",) for name in SEARCHES},
}


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SETTINGS)


@pytest.mark.parametrize(
    "name",
    in_part(SETTINGS, {*SEARCHES, "events"}),
)
def test_example_passes_its_own_checks(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main_of(name)(**SETTINGS[name])
    for picture in PICTURES.get(name, ()):
        assert (tmp_path / "out" / picture).stat().st_size > 10_000


# -- ready mechanisms, each against a solution that holonax has no part in ------------------------
#
# An error that falls with the fourth power of the step of RK4 falls towards the other solution:
# a difference between the two models would stay. 0.2 is left for higher powers of the step.


def test_every_ready_mechanism_is_compared_here():
    tests = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    assert [x for x in ready.__all__ if not any(name.startswith(x) for name in tests)] == []


def agrees(built, rhs, begin, seen, exact, t_end, steps, within=None):
    """The motion has order 4 towards that of `rhs`, or lies `within` a distance of it.

    `seen` and `exact` make the two comparable.
    """
    t = np.linspace(0.0, t_end, SAMPLES + 1)
    wanted = np.asarray(exact(integrate(rhs, begin, t).T, t)).T

    def error(steps):
        return rms(np.asarray(seen(Samples(built, t_end, steps))).T - wanted)

    if within is None:
        assert observed_order(error, steps) == pytest.approx(4, abs=0.2)
    else:
        assert error(steps) < within


def along(angle):
    return jnp.array([jnp.cos(angle), jnp.sin(angle)])


def chain(*arms):
    """Ends of rods that hang on each other, from the origin."""
    points = jnp.cumsum(jnp.stack([jnp.zeros(2), *arms]), axis=0)
    return jnp.stack([points[:-1], points[1:]], axis=1)


def angles_of(*names):
    return lambda run: [run[name].angle for name in names]


def states(run):
    return run.q.T


def test_slider_crank():
    r, rod, offset, m = 0.3, 0.5, 0.3, 1.0

    def place(a):
        b = jnp.arcsin(-r / rod * jnp.sin(a))
        return jnp.concatenate([a, b, r * along(a[0]) + offset * along(b[0])])

    def lagrangian(q, v, t):
        x, u = jax.jvp(place, (q,), (v,))
        return (0.045 * u[0] ** 2 + 33 / 4800 * u[1] ** 2 + u[2] ** 2 + u[3] ** 2) / 2 - 10 * m * x[
            3
        ]

    built, rhs = ready.slider_crank(), minimal(lagrangian)
    agrees(built, rhs, [0.9851, 0], states, lambda y, t: jax.vmap(place)(y[:1].T).T, 1.0, 100)


def test_double_pendulum():
    rhs = minimal(rods(lambda q, t: chain(5 * along(q[0]), 5 * along(q[1])), [1, 1], 10.0))
    seen = angles_of("upper", "lower")
    agrees(ready.double_pendulum(), rhs, np.zeros(4), seen, lambda y, t: y[:2], 2.0, 200)


@pytest.mark.parametrize("case", in_part(["I", "II"], {"I"}))
def test_two_link_arm(case):
    start = 2 * np.cos(np.deg2rad(70.0))  # where the end is: level with the shoulder

    def inclinations(x, t):
        y = x**2 - start**2 if case == "I" else jnp.sin(0.5 * t) ** 2
        middle, half = jnp.arctan2(y, x), jnp.arccos(jnp.sqrt(x * x + y * y) / 2)
        return middle + half, middle - half

    def ends(q, t):
        return chain(*map(along, inclinations(q[0], t)))

    def joints(y, t):
        first, second = inclinations(y[0], t)
        return jnp.array([first, second - first])

    rhs = minimal(rods(ends, [36.0, 36.0], 9.81))
    agrees(ready.two_link_arm(case), rhs, [start, 0.0], states, joints, 0.5, 100)


def test_three_link_pendulum():
    """Energy, and the momentum about gravity's line through the ball, computed from the bodies."""
    down = -np.array([0.5, 0.5**0.5, 0.5])
    lengths = np.array([1.0, 2.0, 2.5])
    built = ready.three_link_pendulum()
    assert built[1].lam.size == 11

    def change(steps):
        run, energy, momentum = Samples(built, 1.0, steps), 0.0, 0.0
        for name, L in zip(("upper", "middle", "lower"), lengths, strict=True):
            body, m = run[name], L**3
            J = m * L**2 / 12 * np.array([1.01, 1.01, 0.02])
            w = np.einsum("nji,nj->ni", body.rotation, body.angular_velocity)
            spin = np.einsum("nij,nj->ni", body.rotation, J * w)
            energy += (m * np.sum(body.velocity**2, 1) + np.sum(J * w * w, 1)) / 2
            energy -= 10 * m * body.position @ down
            momentum += (m * np.cross(body.position, body.velocity) + spin) @ down
        return rms(np.column_stack([energy - energy[0], momentum - momentum[0]]))

    assert observed_order(change, 400) == pytest.approx(4, abs=0.2)


def test_pendulum_with_spring_oscillates_harmonically():
    run = hx.simulate(*ready.pendulum_with_spring(2.0, 30.0, 0.5, 0.4), 5.0, dt=1e-3)
    phi = 0.4 * np.cos(np.sqrt(30.0 / (2.0 * 0.5**2)) * run.t)
    # six digits: the inertia of phi delays by 5e-10 of 39 rad, RK4 errs by 3e-9
    np.testing.assert_allclose(run.q[:, 2], phi, rtol=0, atol=0.4e-6)
    bob = 0.5 * np.column_stack([np.sin(phi), -np.cos(phi)])
    np.testing.assert_allclose(run.q[:, :2], bob, rtol=0, atol=0.4e-6)
    # k phi = lam2 l, and the rod carries the centripetal force 2 lam1 l
    np.testing.assert_allclose(run.lam[:, 1], 30.0 * phi / 0.5, rtol=0, atol=24e-6)


def squeezer_angles(run):
    """The seven angles of Hairer and Wanner from those of the bodies."""
    a = np.array([run[f"K{i}"].angle[-1] for i in range(1, 8)])
    return a - [0.0, a[0], 0.0, a[4], 0.0, a[6], 0.0]


def test_andrews_arrives_where_the_test_set_says():
    run = hx.simulate(*ready.andrews(), 0.03, dt=1e-5, save="end")
    # the start is given to 1e-16 and the drive amplifies it; beta differs by 1.4e-9 of 15.8 at
    # every smaller step as well
    np.testing.assert_allclose(run.q[-1], SQUEEZER, rtol=0, atol=3e-9)


@pytest.mark.parametrize("law", [{}, {"stiffness": 3e4, "damping": 20.0}], ids=["spring", "damper"])
def test_andrews_moves_alike_in_angles_and_in_cartesian_coordinates(law):
    system, start = ready.andrews("cartesian", **law)
    assert (start.q.size, start.lam.size) == (21, 20)
    bodies = hx.simulate(system, start, 0.03, dt=1e-5, save="end")
    angles = hx.simulate(*ready.andrews(**law), 0.03, dt=1e-5, save="end")
    # two coordinate systems, two errors of RK4: 5e-10 at this step, 16 times less at half of it
    np.testing.assert_allclose(squeezer_angles(bodies), angles.q[-1], rtol=0, atol=2e-9)


def test_stiff_double_pendulum():
    weight = rods(lambda q, t: chain(2 * along(q[0]), 2 * along(q[1])), [3, 3], 9.81)

    def springs(q, k1, k2):
        return (k1 * (q[0] - 1.5 * np.pi) ** 2 + k2 * (q[1] - q[0] - 0.5 * np.pi) ** 2) / 2

    rhs = minimal(
        lambda q, v, t: weight(q, v, t) - springs(q, 400.0, 3e5),
        lambda q, v, t: (15.0 * v[0] ** 2 + 5e4 * (v[1] - v[0]) ** 2) / 2,
    )
    begin, seen = [1.5 * np.pi, 2 * np.pi, 0, 10], angles_of("upper", "lower")
    agrees(ready.stiff_double_pendulum(), rhs, begin, seen, lambda y, t: y[:2], 0.02, 800)


def test_slider_crank_with_spring():
    def tip(q):
        pin = 0.6 * along(q[0])
        return jnp.array([pin[0] + jnp.sqrt(1.44 - pin[1] ** 2), 0.0])

    def ends(q, t):
        pin = 0.6 * along(q[0])
        return jnp.stack([jnp.stack([jnp.zeros(2), pin]), jnp.stack([pin, tip(q)])])

    weight = rods(ends, [3.0, 9.0], 9.81)

    def speed(q, v, t):
        return jax.jvp(tip, (q,), (v,))[1][0]

    rhs = minimal(
        lambda q, v, t: weight(q, v, t) - 1e6 * (2.0 - tip(q)[0] - 1.0) ** 2 / 2,
        lambda q, v, t: 5e4 * speed(q, v, t) ** 2 / 2,
    )
    built, begin = ready.slider_crank_with_spring(), [np.pi / 2, 0.0]
    agrees(built, rhs, begin, angles_of("crank"), lambda y, t: y[:1], 0.02, 400)


@pytest.mark.slow
def test_spatial_slider_crank():
    def place(q):
        """Directions of the rod's axes, its centre, and the slider."""
        pin = jnp.array([0.0, 0.1, 0.12]) + 0.08 * jnp.array([0.0, -jnp.sin(q[0]), jnp.cos(q[0])])
        end = jnp.array([jnp.sqrt(0.09 - pin[1] ** 2 - pin[2] ** 2), 0.0, 0.0])
        u = (end - pin) / 0.3
        n = jnp.array([0.0, -u[2], u[1]]) / jnp.sqrt(u[1] ** 2 + u[2] ** 2)  # normal to u and x
        return jnp.stack([u, n, jnp.cross(u, n)], axis=1), (pin + end) / 2, end[0]

    def lagrangian(q, v, t):
        (R, centre, _), (dR, velocity, speed) = jax.jvp(place, (q,), (v,))
        W = R.T @ dR  # the rod's angular velocity in its own axes
        spin = (4e-4 * W[2, 1] ** 2 + 4e-3 * (W[0, 2] ** 2 + W[1, 0] ** 2)) / 2
        kinetic = (1e-4 * v[0] ** 2 + 0.5 * velocity @ velocity + 2 * speed**2) / 2 + spin
        return kinetic - 0.5 * 9.81 * centre[2]

    def seen(run):
        along = run["crank"].rotation[:, :, 2]
        return np.stack([-along[:, 1], along[:, 2], run["slider"].position[:, 0]])

    def exact(y, t):
        return jnp.stack([jnp.sin(y[0]), jnp.cos(y[0]), jax.vmap(place)(y[:1].T)[2]])

    built = ready.spatial_slider_crank()
    agrees(built, minimal(lagrangian), [0.0, 6.0], seen, exact, 0.5, 400)


def n_loops(n):
    def ends(q, t):
        feet = jnp.stack([jnp.arange(n + 1.0), jnp.zeros(n + 1)], axis=1)
        heads = feet + along(q[0])
        cranks, couplers = jnp.stack([feet, heads], 1), jnp.stack([heads[:-1], heads[1:]], 1)
        return jnp.concatenate([cranks, couplers])

    return minimal(rods(ends, np.ones(2 * n + 1), 9.81))


@pytest.mark.slow
def test_n_four_bar():
    # it stays short of the line, where its constraints are singular, by 0.6 rad
    seen, begin = angles_of("crank 0", "crank 3"), [np.pi / 2, -1.0]
    agrees(ready.n_four_bar(3), n_loops(3), begin, seen, lambda y, t: y[[0, 0]], 0.5, 40)


def test_n_four_bar_goes_on_through_its_singular_line():
    t_end = 1.7  # past the line on the right, the lowest position and the line on the left
    run = hx.simulate(*ready.n_four_bar(2), t_end, dt=1e-3)
    exact = integrate(n_loops(2), [np.pi / 2, -1.0], np.array([0.0, t_end]))[-1]
    assert run.success and exact[0] < -np.pi
    found = [run[f"crank {i}"].angle[-1] for i in range(3)]
    np.testing.assert_allclose(found, exact[0], rtol=0, atol=1e-9)  # RK4's own error is 5e-12


@pytest.mark.slow
def test_bricard():
    edges = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 1], [-1, 0, 0], [0, 1, 0], [0, 0, -1]], float)
    axes = np.cross(np.roll(edges, 1, axis=0), edges)
    moments = np.array([2e-2, 1.01]) / 12
    J = jnp.asarray(moments[1] + (moments[0] - moments[1]) * np.abs(edges))

    def place(q):
        """Rotations and centres of the five bars; angles at alternate hinges are equal, and
        cos a + cos b + cos a cos b = 0 for the angles between the bars there."""
        a = q[0]
        b = jnp.arcsin(-jnp.sin(a) / (1 - jnp.sin(a)))
        R, corner, found = jnp.eye(3), jnp.zeros(3), []
        for i in range(5):
            K = jnp.cross(jnp.eye(3), axes[i])
            angle = (a, b)[i % 2]
            R = R @ (jnp.eye(3) + jnp.sin(angle) * K + (1 - jnp.cos(angle)) * K @ K)
            found.append((R, corner + R @ edges[i] / 2))
            corner = corner + R @ edges[i]
        return tuple(jnp.stack(x) for x in zip(*found, strict=True))

    def lagrangian(q, v, t):
        (R, centre), (dR, velocity) = jax.jvp(place, (q,), (v,))
        W = jnp.swapaxes(R, 1, 2) @ dR
        w = jnp.stack([W[:, 2, 1], W[:, 0, 2], W[:, 1, 0]], axis=1)
        kinetic = (jnp.sum(velocity**2) + jnp.sum(J[:5] * w**2)) / 2
        return kinetic - 9.81 * jnp.sum(centre[:, 1])

    def exact(y, t):
        return np.moveaxis(np.asarray(jax.vmap(place)(y[:1].T)[1]), 0, -1).reshape(15, -1)

    def seen(run):
        return np.concatenate([run[f"bar {i}"].position.T for i in range(5)])

    agrees(ready.bricard(), minimal(lagrangian), [0.0, 0.0], seen, exact, 1.0, 100)


@pytest.mark.slow
def test_flyball_governor():
    """In its turn, the inclination of both rods, and the height of the slider."""
    m, transverse, axial = 0.3, 0.3 * 1.0001 / 12, 0.3 * 2e-4 / 12

    def length(q):
        return jnp.sqrt((0.5 * jnp.cos(q[1])) ** 2 + (1 - 0.5 * jnp.sin(q[1]) - q[2]) ** 2)

    def lagrangian(q, v, t):
        s, c = jnp.sin(q[1]), jnp.cos(q[1])
        polar = m * (0.05 + 0.5 * c) ** 2 + transverse * c**2 + axial * s**2 + 5 * (0.05 + c) ** 2
        swing = m * 0.25 + transverse + 5.0
        kinetic = (polar + 0.5 * (axial + 3 * 0.01 / 6)) * v[0] ** 2 + swing * v[1] ** 2
        height = (0.5 * m + 5.0) * -s * 2 + 3.0 * q[2]
        return kinetic + 1.5 * v[2] ** 2 - 9.81 * height - 8e5 * (length(q) - 0.5) ** 2

    def dissipation(q, v, t):
        return 4e4 * jax.jvp(length, (q,), (v,))[1] ** 2

    def seen(run):
        shaft = run["shaft"].rotation
        return np.stack([shaft[:, 0, 0], shaft[:, 1, 0], run["slider"].position[:, 2]])

    def exact(y, t):
        return np.stack([np.cos(y[0]), np.sin(y[0]), y[2]])

    begin = [0.0, np.pi / 6, 0.5, 2 * np.pi, 0.0, 0.0]
    rhs = minimal(lagrangian, dissipation)
    # the springs' decay is too fast for the order to show above rounding
    agrees(ready.flyball_governor(), rhs, begin, seen, exact, 0.5, 4000, within=1e-10)


def test_heavy_top():
    """By the direction u of the axis: p u + I u x u' changes by the moment of the weight.

    Unlike Euler's angles it is regular straight down, where this top comes by.
    """
    about_tip, p, weight = 15.234375, 0.46875 * 150.0, 15.0 * 9.81

    def rhs(t, y):
        u, rate = y[:3], y[3:]
        moment = -weight * np.cross(u, [0.0, 0.0, 1.0]) - p * rate
        return np.concatenate([rate, -(rate @ rate) * u - np.cross(u, moment) / about_tip])

    begin, seen = [0.0, 1.0, 0.0, 4.61538, 0.0, 0.0], lambda run: run["top"].position.T
    agrees(ready.heavy_top(), rhs, begin, seen, lambda y, t: y[:3], 1.0, 1600)


def test_car_axis_arrives_where_the_test_set_says():
    run = hx.simulate(*ready.car_axis(), 3.0, dt=2.5e-4, save="end")
    q = [0.493455784275402809e-1, 0.496989460230171154, 1.04174252488542152, 0.373911027265361257]
    v = [
        -0.77058368404097236e-1,
        0.744686658723778553e-2,
        0.175568157537232222e-1,
        0.770341043779251976,
    ]
    # RK4 errs by 2.4e-7 in the velocities at twice this step, so by 1.5e-8 here
    np.testing.assert_allclose(run.q[-1], q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.v[-1], v, rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        run.lam[-1], [0.473688659084893325e-2, 0.110468033125734369e-2], rtol=1e-6
    )


# of the test set at t = 10: x, y, z, theta, phi; their rates and beta; multipliers
WHEELSET_Q = [0.86355386965811e-2, 0.13038281022727e-4, -0.93635784016818e-4, -0.13642299804033e-1]
WHEELSET_Q += [0.15292895005422e-2]
WHEELSET_V = [-0.76985374142666e-1, -0.25151106429207e-3, 0.20541188079539e-2, -0.23904837703692]
WHEELSET_V += [-0.13633468454173e-1, -0.24421377661131]
WHEELSET_LAM = np.array([-0.10124044903201e-1, -0.56285630573753e-2])


def test_wheelset_arrives_where_the_test_set_says():
    # its solution was computed to 1e-9 in each step, and is 2e-6 from what smaller ones lead to;
    # y, which its index-2 equations let drift, 5e-6
    system, start = ready.wheelset()
    run = hx.simulate(system, start, 10.0, rtol=1e-9, save="end")
    np.testing.assert_allclose(run.q[-1, :5], WHEELSET_Q, rtol=1e-5)
    np.testing.assert_allclose(run.v[-1], WHEELSET_V, rtol=1e-5)
    np.testing.assert_allclose(run.lam[-1], -1e4 * WHEELSET_LAM, rtol=1e-6)


@pytest.mark.slow
def test_implicit_methods_follow_the_wheelset_as_explicit_ones_do():
    system, start = ready.wheelset()
    runs = [
        hx.simulate(system, start, 0.5, rtol=1e-9, save="end"),
        hx.simulate(
            system,
            start,
            0.5,
            rtol=1e-7,
            save="end",
            formulation=hx.GGL(),
            integrator=hx.RadauIIA(3),
        ),
        hx.simulate(
            system,
            start,
            0.5,
            rtol=1e-7,
            save="end",
            formulation=hx.Index2(),
            integrator=hx.VariableBDF(),
        ),
    ]
    for run in runs[1:]:
        assert run.success
        np.testing.assert_allclose(run.q[-1], runs[0].q[-1], rtol=1e-4, atol=1e-8)
        np.testing.assert_allclose(run.lam[-1], runs[0].lam[-1], rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ready.two_link_arm("III"), r"two_link_arm: case='III' is not known\. Choose"),
        (lambda: ready.andrews("polar"), r"andrews: coordinates='polar' is not known\. Choose"),
        (lambda: ready.andrews(stiffness=np.nan), r"andrews: stiffness=nan is not finite"),
        (lambda: ready.n_four_bar(0), r"n_four_bar: n=0 must be a whole number"),
        (lambda: ready.n_four_bar(2.5), r"n_four_bar: n=2\.5 must be a whole number"),
        (
            lambda: ready.pendulum_with_spring(mass=0.0),
            r"pendulum_with_spring: mass=0\.0 is out of range",
        ),
        (lambda: ready.stiff_double_pendulum(damping=-1.0), r"damping=-1\.0"),
    ],
)
def test_what_a_mechanism_cannot_be_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_four_bar_turns_as_its_energy_says():
    """Its place follows from the crank's angle by two circles, and its speed from the energy."""
    masses = {"crank": (1.0, 0.2), "coupler": (2.0, 0.5), "rocker": (1.5, 0.4)}

    def place(angle):
        """Centres and angles of the three rods, from lengths alone."""
        b = 0.2 * np.array([np.cos(angle), np.sin(angle)])
        d = np.array([0.6, 0.0]) - b
        s = np.linalg.norm(d)
        along = (0.5**2 - 0.4**2 + s**2) / (2 * s)
        across = np.sqrt(0.5**2 - along**2)
        c = b + (along * d + across * np.array([-d[1], d[0]])) / s
        e = c - np.array([0.6, 0.0])
        turns = angle, np.arctan2(*(c - b)[::-1]), np.arctan2(*e[::-1])
        return np.array([b / 2, (b + c) / 2, c - e / 2]), np.unwrap(turns)

    def inertia_and_height(angle, h=1e-5):
        """By differences of fourth order, to 1e-12."""
        steps = [(place(angle + k * h), w / h) for k, w in ((1, 2 / 3), (-1, -2 / 3))]
        steps += [(place(angle + k * h), w / h) for k, w in ((2, -1 / 12), (-2, 1 / 12))]
        slope = sum(x[0] * w for x, w in steps)
        turn = sum(x[1] * w for x, w in steps)
        m, length = np.array(list(masses.values())).T
        inertia = np.sum(m * np.sum(slope**2, axis=1) + m * length**2 / 12 * turn**2)
        return inertia, m @ place(angle)[0][:, 1]

    result = hx.simulate(*ready.four_bar(), 0.5, dt=5e-4)
    angle, speed = result["crank"].angle, result["crank"].angular_velocity
    found = np.array([inertia_and_height(x) for x in angle])
    energy = 0.5 * found[:, 0] * speed**2 + 9.81 * found[:, 1]
    assert speed[0] == 10.0 and angle[-1] > 2.0
    np.testing.assert_allclose(energy, energy[0], rtol=1e-7)
    for name, i in (("coupler", 1), ("rocker", 2)):
        exact = np.array([place(x)[0][i] for x in angle])
        np.testing.assert_allclose(result[name].position, exact, atol=1e-12)


def test_model_of_gives_the_model_and_what_its_start_keeps():
    model, options = ready.model_of("four_bar")
    one, other = model.build(**options)[1], ready.four_bar()[1]
    assert np.array_equal(one.q, other.q) and np.array_equal(one.v, other.v)
    with pytest.raises(ValueError, match="'slider_crank' is written as Python functions"):
        ready.model_of("slider_crank")
    with pytest.raises(ValueError, match="no mechanism 'nobody'"):
        ready.model_of("nobody")


def test_run_of_says_how_a_mechanism_is_run():
    assert ready.run_of("four_bar") == {"t_end": 10.0}
    beam = ready.run_of("cantilever")
    assert beam["integrator"] == "GeneralizedAlpha" and beam["dt"] < beam["t_end"] < 10.0
    with pytest.raises(ValueError, match="no mechanism 'nobody'"):
        ready.run_of("nobody")


def test_file_text_is_there_for_those_written_by_hand():
    assert 'name = "coupler"' in ready.file_text("four_bar")
    assert ready.file_text("bricard") is None
    with pytest.raises(ValueError, match="Python functions"):
        ready.file_text("slider_crank")


# -- mechanisms with beams -------------------------------------------------------------------------


def test_whirling_rod_is_as_heavy_as_it_should_be_and_spins_as_a_rigid_one():
    system, start = ready.whirling_rod(elements=4)
    mass, spin = 0.2, 8.0
    assert np.sum(system.bodies.mass) == pytest.approx(mass)
    assert np.asarray(system.frame_of("rod.end", start.q, start.v).v.y) == pytest.approx(spin)
    energy = float(system.kinetic_energy(start.q, start.v))
    # m l^2 / 6 (w_y^2 + w_z^2); masses at nodes have (1 + 1/(2 n^2)) of it
    assert energy == pytest.approx(mass / 6 * (spin**2 + 1) * (1 + 1 / 32), rel=1e-3)


@pytest.mark.slow
def test_lateral_buckling_begins_when_the_crank_has_lifted_the_tip_by_a_tenth_of_a_millimetre():
    system, start = ready.lateral_buckling()
    options = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.6)}
    result = hx.simulate(system, start, 0.12, dt=2.5e-4, **options)
    assert result.success
    middle = result.beam("beam").at(0.5)[0]
    sideways = np.abs(middle[:, 1] - middle[0, 1])
    assert np.interp(0.04, result.t, sideways) < 3e-4
    assert 0.05 < result.t[np.argmax(sideways > 1e-3)] < 0.09  # the paper says about 0.05 s


def flexible(built, t_end, dt):
    return hx.simulate(
        *built, t_end, dt=dt, formulation=hx.Index3(), integrator=hx.GeneralizedAlpha(0.6)
    )


@pytest.mark.slow
def test_cantilever_falls_twice_as_far_as_it_would_rest():
    tip = np.asarray(flexible(ready.cantilever(elements=4), 0.1, 1e-3)["beam.end"].position)[:, 2]
    EI, weight = 210e9 * 0.02 * 0.002**3 / 12, 9.81 * 7800 * 0.02 * 0.002
    rest = 2.0 * 0.5**3 / (3 * EI) + weight * 0.5**4 / (8 * EI)
    assert tip.min() == pytest.approx(-2 * rest, rel=0.05)  # but for the higher modes


@pytest.mark.slow
def test_flexible_slider_crank_moves_its_slider_as_a_rigid_one_does():
    result = flexible(ready.flexible_slider_crank(elements=4), 0.15, 5e-4)
    assert result.success, result.message
    t = np.asarray(result.t)
    angle = 20 * (t - 0.05 * (1 - np.exp(-20 * t)))
    rigid = 0.15 * np.cos(angle) + np.sqrt(0.3**2 - (0.15 * np.sin(angle)) ** 2)
    assert np.abs(result["slider"].position[:, 0] - rigid).max() < 1e-3


@pytest.mark.slow
def test_flexible_four_bar_closes_as_a_rigid_one_does():
    result = flexible(ready.flexible_four_bar(elements=4), 0.2, 5e-4)
    assert result.success, result.message
    t = np.asarray(result.t)
    angle = 12 * (t - 0.1 * (1 - np.exp(-10 * t)))
    ends = np.asarray(result["rocker.end"].position)
    crank = 0.12 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    coupler = np.linalg.norm(ends[:, :2] - crank, axis=1)
    assert np.abs(np.linalg.norm(ends - [0.36, 0, 0], axis=1) - 0.24).max() < 1e-3
    assert np.abs(coupler - np.hypot(0.24, 0.24)).max() < 1e-3


@pytest.mark.slow
def test_rotor_pulls_at_its_hub_with_the_centrifugal_force_of_a_blade():
    result = flexible(ready.rotor(blades=2, elements=4), 0.2, 5e-4)
    assert result.success, result.message
    pull = result.beam("blade0").section_force[:, 0, 0].mean()
    inner = 0.2 + 0.25  # the middle of the first element
    exact = 1600 * 0.1 * 0.012 * 20.0**2 * (2.2**2 - inner**2) / 2
    assert pull == pytest.approx(exact, rel=0.03)


@pytest.mark.slow
def test_cable_in_wind_sags_twice_as_far_as_it_would_rest():
    result = flexible(ready.cable_in_wind(elements=10), 1.0, 5e-3)
    assert result.success, result.message
    sag = 0.39 * 9.81 * 40**2 / (8 * 5e6 * 0.05 / 39.95)
    middle = np.asarray(result["cable(0.5)"].position)
    assert middle[:, 2].min() == pytest.approx(-2 * sag, rel=0.05)


def test_modal_slider_crank_is_that_of_the_test_set_for_ivp_solvers():
    """Reference solution at 0.1 s (test set for IVP solvers, release 2.4); its start is given to
    nine digits, which is what remains of the vibrations."""
    system, start = ready.modal_slider_crank()
    result = hx.simulate(system, start, 0.1, rtol=1e-9)
    rod, slider = result["rod"], result["slider"]
    np.testing.assert_allclose(rod.angle[-1], -3.311734987910881e-01, rtol=1e-8)
    np.testing.assert_allclose(slider.position[-1, 0], 1.697373326718410e-01, rtol=1e-8)
    np.testing.assert_allclose(rod.angular_velocity[-1], 6.025346682645789e01, rtol=1e-6)
    np.testing.assert_allclose(slider.velocity[-1, 0], -8.753116989887888, rtol=1e-6)
    reference = (1.893192460247178e-04, 2.375751865617931e-05, -5.323907988763734e-06)
    np.testing.assert_allclose(rod.modes[-1], (*reference, -8.363283141616840e-06), rtol=1e-4)
    np.testing.assert_allclose(
        result.reaction("small_end").force[-1],
        (1.637910131687472e02, -6.232893262533717e01),
        rtol=1e-4,
    )
