"""Forces that depend on reactions: friction by the load a joint carries, against closed forms.

Below the transition speed s regularised friction creeps: a force that Coulomb's law would hold by a
share x of what it can moves the surfaces at s atanh(x). That is exact, and what "stuck" means here.
"""

import re
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx

G = 9.81
SLOW = 1e-3  # transition speed [m/s]

METHODS = {
    "Index3": (hx.Index3(), hx.GeneralizedAlpha(0.8)),
    "Index2": (hx.Index2(), hx.BDF(2)),
    "GGL": (hx.GGL(), hx.RadauIIA(2)),
    "Overdetermined": (hx.Overdetermined(), hx.ImplicitMidpoint()),
    "ProjectedInvariants": (hx.ProjectedInvariants(), hx.RadauIIA(1)),
}


# -- in the plane ----------------------------------------------------------------------------

STEEP, FLAT, MU = 0.5, 0.2, 0.3  # tan 0.2 = 0.203 is held by friction
BLOCK, WEDGE = 2.0, 3.0  # kg


def push(t):
    """Downwards on the block on the steep slope [N]."""
    return 5.0 * (1 - jnp.cos(16.0 * t))


def pressed(t):
    """Its impulse from 0 to t [N s]."""
    return 5.0 * (t - np.sin(16.0 * t) / 16)


def on_slope(model, name, angle):
    along = (np.cos(angle), -np.sin(angle))
    speed = 0.5 if angle == STEEP else 0.0
    velocity = tuple(speed * x for x in along)
    model.planar_body(name, BLOCK, 0.1, position=(0, 0), angle=-angle, velocity=velocity)
    model.prismatic(f"{name} slope", "ground", name, at=(0, 0), axis=along)
    friction = {"coefficient": MU, "transition_speed": SLOW}
    model.joint_friction(f"{name} friction", f"{name} slope", **friction)


def on_wedge(model, name, angle):
    """A block in a vertical guide presses a wedge aside, friction between the two."""
    sinks, out = (0.0, -0.3 * np.tan(STEEP)), (-0.3, 0.0)  # as they move together
    moving = angle == STEEP
    model.planar_body(f"{name} load", BLOCK, 0.1, velocity=sinks if moving else (0, 0))
    model.planar_body(f"{name} wedge", WEDGE, 0.1, velocity=out if moving else (0, 0))
    model.prismatic(f"{name} guide", "ground", f"{name} load", at=(0, 0), axis=(0, 1))
    model.prismatic(f"{name} floor", "ground", f"{name} wedge", at=(0, 0), axis=(1, 0))
    along = (np.cos(angle), -np.sin(angle))
    model.pin_in_slot(f"{name} slope", f"{name} wedge", f"{name} load", at=(0, 0), direction=along)
    friction = {"coefficient": MU, "transition_speed": SLOW}
    model.joint_friction(f"{name} friction", f"{name} slope", **friction)


@cache
def slope_and_wedge():
    model = hx.Model(gravity=(0.0, -G))
    on_slope(model, "sliding", STEEP)
    model.force("push", "sliding", force=lambda t: jnp.stack([0.0 * t, -push(t)]))
    on_wedge(model, "flat", FLAT)
    return model.build()


def sliding_speed(t):
    slope = np.sin(STEEP) - MU * np.cos(STEEP)
    return 0.5 + slope * (G * t + pressed(t) / BLOCK)


# what is left of the steps' errors, of second order at 2e-3 for accelerations that change at 16/s
ERRORS = {"Index3": 1e-4, "Index2": 1e-3, "GGL": 1e-5, "Overdetermined": 1e-4}


@pytest.mark.parametrize(
    "name",
    [x if x == "Index3" else pytest.param(x, marks=pytest.mark.slow) for x in METHODS],
)
def test_friction_follows_the_reaction(name):
    method = dict(zip(("formulation", "integrator"), METHODS[name], strict=True))
    end, few = 0.3, ERRORS.get(name, 1e-2)
    result = hx.simulate(*slope_and_wedge(), end, dt=2e-3, **method)
    assert result.success
    speed = lambda body: np.linalg.norm(result[body].velocity[-1])  # noqa: E731
    assert speed("sliding") == pytest.approx(sliding_speed(end), rel=few)
    carried = (BLOCK * G + float(push(end))) * np.cos(STEEP)
    load = result.reaction("sliding slope", axes="joint").force[-1]
    assert load[1] == pytest.approx(carried, rel=few) and abs(load[0]) < 1e-9 * carried
    slip = speed("flat wedge") / np.cos(FLAT)
    assert slip == pytest.approx(SLOW * np.arctanh(np.tan(FLAT) / MU), rel=1e-6)
    # the work of friction is accounted for
    assert np.abs(result.energy.balance).max() < 20 * few


@pytest.mark.slow
def test_explicit_methods_solve_for_the_reaction_as_well():
    """The rate mu g / s is 3000/s, of which a step is 0.6 where something is held, and the creep
    accurate to 1e-6; what slides much faster than s has accelerations that do not change."""
    model = hx.Model(gravity=(0.0, -G))
    on_slope(model, "held", FLAT)
    on_wedge(model, "steep", STEEP)
    # a drawer in a short guide, pulled off its middle; gravity is held
    model.planar_body("drawer", 1.0, 0.1, velocity=(0.5, 0.0))
    model.prismatic("rail", "ground", "drawer", at=(0, 0), axis=(1, 0))
    model.force("weight", "drawer", force=(0.0, G))
    model.force("pull", "drawer", force=(4.0, 0.0), at_b=(0.0, 0.1))
    law = {"coefficient": MU, "transition_speed": SLOW}
    model.joint_friction("drawer friction", "rail", length=0.2, **law)
    # a balanced wheel on a pin
    model.planar_body("wheel", 5.0, 0.2, position=(1.0, 0.0), angular_velocity=20.0)
    model.revolute("pin", "ground", "wheel", at=(1.0, 0.0))
    model.joint_friction("pin friction", "pin", radius=0.02, **law)
    end = 0.1
    result = model.simulate(end, dt=2e-4, save="end")
    assert isinstance(result.integrator, hx.RK4) and result.success
    speed = lambda body: np.linalg.norm(result[body].velocity[-1])  # noqa: E731
    assert speed("held") == pytest.approx(SLOW * np.arctanh(np.tan(FLAT) / MU), rel=1e-6)
    # N sin - mu N cos moves the wedge, N cos + mu N sin holds the block; together they move
    up, aside = np.cos(STEEP) + MU * np.sin(STEEP), np.sin(STEEP) - MU * np.cos(STEEP)
    x = BLOCK * G / (WEDGE * up / aside + BLOCK * np.tan(STEEP))
    assert speed("steep wedge") == pytest.approx(0.3 + x * end, rel=1e-9)
    assert speed("drawer") == pytest.approx(0.5 + 4.0 * (1 - 2 * MU * 0.1 / 0.2) * end, rel=1e-9)
    wheel = result["wheel"].angular_velocity[-1]
    assert wheel == pytest.approx(20 - MU * 0.02 * 5 * G / 0.2 * end, rel=1e-9)


# -- in space --------------------------------------------------------------------------------


# What turns and slides at 1 m/s of slip, or as fast as said, on joints that carry its weight: the
# joint, the friction's radius [m], the start, and what is left of it after a time t. Even inertias
# keep the direction of slip.
M, R = 2.0, 0.1
EVEN = (M * R**2,) * 3
X, Z = (1, 0, 0), (0, 0, 1)
SPINNING = {
    "sleeve": (
        ("cylindrical", {"axis": X, "radius": R}),
        {"velocity": (0.6, 0, 0), "angular_velocity": (8.0, 0, 0)},
        lambda t: 1 - MU * G * t,
    ),
    "socket": (
        ("spherical", {"radius": R}),
        {"angular_velocity": (6.0, 8.0, 0.0)},
        lambda t: 1 - MU * G * t,
    ),
    "collar": (
        ("revolute", {"axis": Z, "radius": 0.02}),
        {"angular_velocity": (0, 0, 9.0)},
        lambda t: 1 - MU * 0.02 * M * G / EVEN[2] * t / 9.0,
    ),
    "ice": (
        ("planar_joint", {"axis": Z}),
        {"velocity": (0.6, 0.8, 0)},
        lambda t: 1 - MU * G * t,
    ),
    "wire": (
        ("point_on_line", {"axis": X}),
        {"velocity": (1.0, 0, 0)},
        lambda t: 1 - MU * G * t,
    ),
}


@pytest.mark.parametrize(
    "names", [("sleeve", "ice"), pytest.param(("socket", "collar", "wire"), marks=pytest.mark.slow)]
)
def test_friction_in_space_is_that_of_the_load_across_along_and_normal(names):
    # loads and directions of slip do not change, so the method errs by rounding alone
    model, end = hx.Model(), 0.1
    for name in names:
        (joint, options), start, _ = SPINNING[name]
        axis = {k: x for k, x in options.items() if k == "axis"}
        radius = {k: x for k, x in options.items() if k == "radius"}
        model.body(f"on {name}", M, EVEN, **start)
        getattr(model, joint)(name, "ground", f"on {name}", at=(0, 0, 0), **axis)
        law = {"coefficient": MU, "transition_speed": SLOW}
        model.joint_friction(f"{name} friction", name, **radius, **law)
    result = model.simulate(end, dt=5e-4)
    assert result.success
    for name in names:
        for what, value in SPINNING[name][1].items():
            left = np.array(value) * SPINNING[name][2](end)
            found = getattr(result[f"on {name}"], what)[-1]
            np.testing.assert_allclose(found, left, rtol=1e-9, atol=1e-9)


# -- forces of the user's --------------------------------------------------------------------


def slope_friction(block, t, reactions, p):
    along = jnp.stack([jnp.cos(STEEP), -jnp.sin(STEEP)])
    normal = jnp.abs(jnp.stack([along[1], -along[0]]) @ reactions[0].force)
    drag = p["mu"] * normal * jnp.tanh(block.v.array() @ along / SLOW)
    return [(-drag * along, 0.0)]


def own_slope(mu=MU, **options):
    """The sliding block with a friction of the user's own, its frame not at the centre of mass."""
    model = hx.Model(gravity=(0.0, -G))
    along = np.array([np.cos(STEEP), -np.sin(STEEP)])
    model.planar_body("block", BLOCK, 0.1, com=(0.2, 0.1), velocity=0.5 * along)
    model.prismatic("slope", "ground", "block", at=(0, 0), axis=along)
    given = {"parameters": {"mu": mu}, "reactions": ["slope"]} | options
    model.custom_force("friction", "block", slope_friction, **given)
    return model


@pytest.mark.slow
def test_a_force_of_the_users_sees_reactions():
    result = own_slope().simulate(0.3, dt=1e-2, formulation=hx.GGL(), integrator=hx.RadauIIA(2))
    exact = 0.5 + (np.sin(STEEP) - MU * np.cos(STEEP)) * G * 0.3
    assert np.linalg.norm(result["block"].velocity[-1]) == pytest.approx(exact, rel=1e-12)
    reaction = result.reaction("slope")
    assert np.linalg.norm(reaction.force[-1]) == pytest.approx(BLOCK * G * np.cos(STEEP), rel=1e-12)
    # the weight's moment about the joint's point, less that of friction, which acts there
    assert reaction.torque[-1] == pytest.approx(BLOCK * (G * 0.2 + result.a[-1] @ [-0.1, 0.2, 0]))


@pytest.mark.slow
def test_gradients_pass_through_the_reaction():
    system, start = own_slope().build()

    def speed(mu):
        other = system.with_parameters({"friction.parameters.mu": mu})
        return hx.trajectory(other, start, [0.0, 0.02], dt=2e-4).v[-1, 0]

    # v = (0.5 + (sin - mu cos) g t) cos
    assert jax.grad(speed)(MU) == pytest.approx(-(np.cos(STEEP) ** 2) * G * 0.02, rel=1e-9)


@pytest.mark.slow
def test_a_joint_that_is_released_carries_nothing():
    event = hx.Event("off", lambda t, q, v: t - 0.1, release=("slope",))
    result = own_slope().simulate(
        0.2, dt=1e-2, formulation=hx.Index3(), integrator=hx.GeneralizedAlpha(0.8), events=event
    )
    assert result.success
    late = result.t > 0.1 + 1e-9
    np.testing.assert_allclose(result.a[late][:, :2], [[0.0, -G]] * np.sum(late), atol=1e-9)


def test_a_run_goes_on_from_a_checkpoint_to_the_bit(tmp_path):
    method = {"formulation": hx.GGL(), "integrator": hx.RadauIIA(2), "dt": 1e-2}
    system, start = own_slope().build()
    whole = hx.simulate(system, start, 0.3, **method)
    hx.simulate(system, start, 0.3, checkpoint=tmp_path / "run", checkpoint_every=1e-9, **method)
    again = hx.resume(tmp_path / "run", system=system)
    np.testing.assert_array_equal(again.v[-1], whole.v[-1])


def hoop(mu, r=0.5, m=1.3):
    """A bead on a horizontal hoop, which is pressed to it by its own speed."""

    def friction(q, v, t, lam, p):
        normal = jnp.abs(lam[0]) * jnp.linalg.norm(q) / r  # G = q / r
        return -p["mu"] * normal * v / jnp.linalg.norm(v)

    return hx.FunctionSystem(
        mass=lambda q, p: jnp.full(2, m),
        force=lambda q, v, t, p: jnp.zeros(2),
        constraint=lambda q, t, p: jnp.stack([(q @ q - r * r) / (2 * r)]),
        reaction_force=friction,
        parameters={"mu": mu},
    )


@pytest.mark.slow
def test_functions_have_forces_by_their_multipliers():
    """N = m v^2 / r slows the bead, v' = -mu v^2 / r; as a capstan's rope, v = v_0 exp(-mu angle).
    Radau's error at 40 steps a turn is below 1e-7."""
    mu, r, m, speed = 0.2, 0.5, 1.3, 2.0
    system = hoop(mu)
    start = hx.consistent(system, [r, 0.0], [0.0, speed])
    implicit = {"formulation": hx.GGL(), "integrator": hx.RadauIIA(3)}
    for options in ({}, implicit):
        result = hx.simulate(system, start, 1.0, dt=5e-3, **options)
        exact = speed / (1 + mu * speed / r * result.t)
        np.testing.assert_allclose(np.linalg.norm(result.v, axis=1), exact, rtol=1e-7)
        np.testing.assert_allclose(np.abs(result.lam[:, 0]), m * exact**2 / r, rtol=1e-6)
    angle = np.unwrap(np.arctan2(result.q[:, 1], result.q[:, 0]))
    np.testing.assert_allclose(exact, speed * np.exp(-mu * angle), rtol=1e-7)

    def last(mu):
        other = system.with_parameters(mu=mu)
        run = hx.trajectory(other, start, [0.0, 0.2], dt=1e-2, adjoint="forward", **implicit)
        return jnp.linalg.norm(run.v[-1])

    slope = -(speed**2) * 0.2 / r / (1 + mu * speed * 0.2 / r) ** 2
    assert jax.jvp(last, (mu,), (1.0,))[1] == pytest.approx(slope, rel=1e-6)


# -- what cannot be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"formulation": hx.AugmentedLagrangian()}, "AugmentedLagrangian"),
        ({"formulation": hx.StaggeredPenalty()}, "StaggeredPenalty"),
        ({"formulation": hx.AlgebraicEnforcement()}, "AlgebraicEnforcement"),
        ({"formulation": hx.Index3(), "integrator": hx.Rattle()}, "Rattle"),
        (
            {"formulation": hx.CoordinatePartitioning(), "integrator": hx.Newmark()},
            "CoordinatePartitioning with Newmark",
        ),
    ],
)
def test_methods_that_do_not_solve_for_it_refuse_by_name(method, words):
    system, start = own_slope().build()
    with pytest.raises(ValueError, match=f"force 'friction'.*{words}.*Use Index3"):
        hx.simulate(system, start, 0.1, dt=1e-2, **method)
    with pytest.raises(ValueError, match=words):
        hx.trajectory(system, start, [0.0, 0.1], dt=1e-2, **method)


def test_analyses_that_do_not_solve_for_it_refuse_by_name():
    model = own_slope()
    system, start = model.build()
    motion = model.simulate(0.1, dt=5e-2, formulation=hx.GGL(), integrator=hx.RadauIIA(2))
    for name, analysis in {
        "linearize": lambda: hx.linearize(system, start),
        "equilibrium": lambda: hx.equilibrium(system, start),
        "inverse_dynamics": lambda: hx.inverse_dynamics(system, motion),
        "floquet": lambda: hx.floquet(system, start, 1.0),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: force 'friction' depends on reactions"):
            analysis()
    power = motion.force("friction").power  # by the multipliers of the run
    assert np.all(power <= 1e-12) and np.min(power) < 0
    contact = hx.Event("floor", lambda t, q, v: q[1] + 1.0, change=hx.Impact(0.5))
    with pytest.raises(ValueError, match=r"floor.*force 'friction'.*custom_force"):
        hx.simulate(system, start, 0.1, dt=1e-2, events=contact)


def test_friction_that_locks_what_a_driver_insists_on_is_named():
    """N (tan a - mu) = M x'' has no solution with x'' > 0 where tan a < mu."""
    model = hx.Model(gravity=(0.0, -G))
    on_wedge(model, "flat", FLAT)
    model.drive_translation("motor", joint="flat guide", displacement=lambda t: -0.1 * t - t**2)
    with pytest.raises(hx.ConstraintError, match="no reactions agree with force 'flat friction'"):
        model.build()


BAD = [
    ({"coefficient": 0.1, "friction": 1.0, "transition_speed": 1.0}, "given twice"),
    ({"transition_speed": 1.0}, "its size is missing"),
    ({"coefficient": 0.1, "radius": 0.1}, "transition_speed is missing"),
    ({"coefficient": -0.1, "radius": 0.1, "transition_speed": 1.0}, "negative"),
    ({"coefficient": 0.1, "transition_speed": 1.0}, "its radius is missing"),
    ({"coefficient": 0.1, "radius": 0.1, "transition_speed": 0.0}, "must be positive"),
    ({"coefficient": 0.1, "radius": 0.1, "transition_speed": 1.0, "length": 0.0}, "length is zero"),
    ({"friction": 0.1, "radius": 0.1, "transition_speed": 1.0}, "means nothing with friction="),
]


@pytest.mark.parametrize(("options", "words"), BAD)
def test_bad_friction_is_refused_by_name(options, words):
    model = hx.Model()
    model.body("a", 1.0, (1, 1, 1))
    model.revolute("hinge", "ground", "a", at=(0, 0, 0), axis=(0, 0, 1))
    with pytest.raises(hx.ModelError, match=rf"'F'.*{words}"):
        model.joint_friction("F", "hinge", **options)


def test_bad_reactions_are_refused_by_name():
    with pytest.raises(hx.ModelError, match=r"'friction'.*'slide', which is no joint.*slope"):
        own_slope(reactions=["slide"])
    with pytest.raises(hx.ModelError, match="no potential"):
        own_slope(potential=lambda block, p: 0.0)
    with pytest.raises(hx.ModelError, match=r"\(frame, ..., t, reactions\)"):
        own_slope(parameters=None)
    model = hx.Model()
    model.body("nut", 1.0, (1, 1, 1))
    model.screw("thread", "ground", "nut", at=(0, 0, 0), axis=(0, 0, 1), pitch=0.01)
    with pytest.raises(hx.ModelError, match="a screw"):
        model.joint_friction("F", "thread", coefficient=0.1, radius=0.1, transition_speed=0.1)
    model.planar_joint("plane", "ground", "nut", at=(0, 0, 0), axis=(0, 0, 1))
    with pytest.raises(hx.ModelError, match="radius means nothing"):
        model.joint_friction("F", "plane", coefficient=0.1, radius=0.1, transition_speed=0.1)


def test_the_code_of_the_page_on_forces_runs():
    page = (Path(__file__).parents[1] / "docs" / "forces.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "forces.md", "exec"), names)
    assert names["own"].system().has_reaction_forces
