"""Every joint, driver and rolling condition: derivatives, reactions, mobility, prescribed motion."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx

ROTATIONS = {"a": (0.3, 0.2, 0.1), "b": (1.0, 0.2, -0.4), "c": (-0.5, 0.7, 0.2)}
POSITIONS = {"a": (0.1, 0.2, 0.3), "b": (1.0, -0.3, 0.4), "c": (0.6, 0.1, -0.8)}
AT = (0.5, 0.4, 0.1)
AXIS = (1.0, 2.0, -0.5)


def waving(t):
    return 0.7 * jnp.sin(1.3 * t) + 0.2 * t


def stretching(t):
    return 1.0 + 0.2 * jnp.sin(2.0 * t)


def rod_of_my_own(a, b, t, p):
    """A rod whose length grows with time, and a sphere joint's first component, on plain arrays."""
    d = b.point(hx.Vec3.of(p["end"])).array() - a.r.array()
    return {"rod": jnp.sqrt(d @ d) - p["length"] - 0.1 * t, "plane": jnp.dot(a.A.array()[:, 0], d)}


def no_slip_of_my_own(a, b, t, p):
    """b's point may not move, seen from a, along an axis of a."""
    at = b.point(hx.Vec3.of(p))
    slip = b.velocity(hx.Vec3.of(p)) - a.velocity(a.A.T @ (at - a.r))
    return (a.A.x.dot(slip),)


def planar_of_my_own(a, b, t):
    return (b.r - a.point(hx.Vec2(0.1, 0.2)), (b.angle - a.angle) - 0.3 * t**2)


def spatial(bodies="ab"):
    model = hx.Model(gravity=(0, 0, 0))
    for name in bodies:
        model.body(
            name, 1.0, (0.2, 0.3, 0.25), position=POSITIONS[name], rotation=ROTATIONS[name]
        )
    return model


def planar(bodies="ab"):
    model = hx.Model(gravity=(0, 0))
    for name in bodies:
        model.planar_body(name, 1.0, 0.2, position=POSITIONS[name][:2], angle=ROTATIONS[name][0])
    return model


def joint(method, kind=spatial, **options):
    """A model of two free bodies with one joint between them."""

    def make():
        model = kind()
        getattr(model, method)("joint", "a", "b", **options)
        return model

    return make


def three(method, **options):
    """A model of three free bodies, the third carrying the pair of wheels."""

    def make():
        model = spatial("abc")
        getattr(model, method)("joint", "a", "b", carrier="c", **options)
        return model

    return make


def on(method, kind=spatial, **options):
    """Body b rolls or slides on a plane of the free body a."""

    def make():
        model = kind()
        getattr(model, method)("joint", "b", on="a", **options)
        return model

    return make


def coordinate(kind, which):
    def make():
        model = kind()
        model.drive_coordinate("joint", "b", which, value=waving)
        return model

    return make


def driven(method, kind=spatial, at=AT, axis=AXIS, driver="drive_angle", **options):
    """A driver that takes its bodies and axis from a joint; the joint's own rows come first."""

    def make():
        model = kind()
        where = {"at": at} if axis is None else {"at": at, "axis": axis}
        getattr(model, method)("guide", "a", "b", **where)
        getattr(model, driver)("joint", joint="guide", **options)
        return model

    return make


def custom(method, kind, function, parameters=None):
    def make():
        model = kind()
        getattr(model, method)("joint", ["a", "b"], function, parameters)
        return model

    return make


PLACED = {"at": AT, "axis": AXIS}
DISC = {"radius": 0.4, "axis": (1.0, 0.2, 0.3), "normal": (0.1, 0.2, 1.0), "point": (0, 0, -0.3)}
ROD = {"end": (0.1, 0.2, 0.3), "length": 1.1}

# name: (model, rows)
CASES = {
    "spherical": (joint("spherical", at=AT), 3),
    "revolute": (joint("revolute", **PLACED), 5),
    "prismatic": (joint("prismatic", **PLACED), 5),
    "cylindrical": (joint("cylindrical", **PLACED), 4),
    "screw": (joint("screw", pitch=0.3, **PLACED), 5),
    "universal": (joint("universal", at=AT, axes=((1, 0, 0), (0, 1, 1))), 4),
    "planar joint": (joint("planar_joint", **PLACED), 3),
    "fixed": (joint("fixed"), 6),
    "distance": (joint("distance", at_a=(0.1, 0, 0.2), at_b=(0, 0.3, 0)), 1),
    "point on line": (joint("point_on_line", **PLACED), 2),
    "point on plane": (joint("point_on_plane", **PLACED), 1),
    "gear": (three("gear", teeth=(20, 30), axis=AXIS), 1),
    "ring gear": (three("gear", ratio=0.4, internal=True, axis_a=AXIS, axis_b=(1, 0, 0)), 1),
    "rack": (three("rack_and_pinion", radius=0.3, axis=AXIS, direction=(1, 0, 2)), 1),
    "driven angle": (driven("revolute", angle=waving), 6),
    "driven slide": (driven("prismatic", driver="drive_translation", displacement=waving), 6),
    "angle driver": (joint("drive_angle", axis=AXIS, angle=waving), 1),
    "distance driver": (joint("drive_distance", at_a=(0.1, 0, 0), distance=stretching), 1),
    "translation driver": (joint("drive_translation", displacement=waving, **PLACED), 1),
    "coordinate driver": (coordinate(spatial, "z"), 1),
    "rolling disc": (on("rolling_disc", **DISC), 3),
    "knife edge": (on("knife_edge", at=AT, direction=AXIS, normal=(0.1, 0, 1)), 1),
    "custom joint": (custom("custom_joint", spatial, rod_of_my_own, ROD), 2),
    "custom rate joint": (
        custom("custom_rate_joint", spatial, no_slip_of_my_own, np.array([0.1, 0.2, 0.3])),
        1,
    ),
    "planar driven angle": (driven("revolute", planar, AT[:2], None, angle=waving), 3),
    "planar driven slide": (
        driven("prismatic", planar, AT[:2], (1, 2), "drive_translation", displacement=waving),
        3,
    ),
    "planar distance driver": (
        joint("drive_distance", planar, at_a=(0.1, 0.1), distance=stretching),
        1,
    ),
    "planar coordinate driver": (coordinate(planar, "angle"), 1),
    "planar knife edge": (on("knife_edge", planar, at=AT[:2], direction=(1, 3)), 1),
    "planar custom joint": (custom("custom_joint", planar, planar_of_my_own), 3),
}
AGAINST_THE_WORLD = ("coordinate driver", "planar coordinate driver")


@jax.jit
def probe(system, q, step, v, t, lam, d):
    """What the system says at q moved by `step`, and the derivative of G^T lam along d."""
    q = system.retract(q, step)

    def force(s):
        return system.constraint_force(system.retract(q, s * d), t, lam)

    pull, along = jax.jvp(force, (0.0,), (1.0,))
    return {
        "q": system.normalize(q),
        "g": system.constraint(q, t),
        "rate": system.constraint_rate(q, v, t),
        "gamma": system.gamma(q, v, t),
        "G": system.jacobian(q, t),
        "force": pull,
        "force along d": along,
    }


class Case:
    """A system with its probe at random places."""

    def __init__(self, name):
        make, self.rows = CASES[name]
        self.model = make()
        self.system = self.model.system()
        self.planar = "planar " in name and name != "planar joint"
        self.n = len(self.model._bodies)
        self.dof = 3 if self.planar else 6
        self.nv = self.n * self.dof

    def random(self, seed):
        rng = np.random.default_rng(seed)
        q = rng.standard_normal((3 if self.planar else 7, self.n))
        if not self.planar:
            q[3:] /= np.linalg.norm(q[3:], axis=0)
        v, d = rng.standard_normal((2, self.nv))
        return q.ravel(), v, rng.uniform(0, 3), rng.standard_normal(self.rows), d

    def assembled(self, seed):
        """A random state near the described one that satisfies the constraint, by Newton."""
        _, v, t, lam, d = self.random(seed)
        q, _ = self.model.start_vectors()
        step = 0.3 * d
        for _ in range(12):
            here = self.at(q, v, t, lam, d, step)
            q = here["q"]
            step = -np.linalg.lstsq(here["G"][: here["g"].size], here["g"])[0]
        close(here["g"], np.zeros_like(here["g"]))
        return q, v, t, lam, d

    def at(self, q, v, t, lam, d, step=None):
        step = np.zeros(self.nv) if step is None else step
        out = probe(self.system, q, step, v, jnp.asarray(t, float), lam, d)
        return {key: np.asarray(x) for key, x in out.items()}

    def difference(self, key, q, v, t, lam, d, along, rate=0.0):
        """d/ds of `key` at (q moved by s * along, t + s * rate), by a fourth-order stencil.

        With s = 2e-4 its truncation (1e-16 times the fifth derivative, which may reach 1e5 where a
        random direction nearly meets an axis) and its rounding (1e-12) stay below 1e-10.
        """
        s = 2e-4
        f = {k: self.at(q, v, t + k * s * rate, lam, d, k * s * along)[key] for k in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * s)


def close(got, expected):
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8 * scale)


@pytest.fixture(scope="module")
def case(request):
    return Case(request.param)


# One case after the other, so that the compiled program of each is made once and shared.
every_joint = pytest.mark.parametrize("case", list(CASES), indirect=True, scope="module")


@every_joint
class TestEveryJoint:
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_derivatives_agree_with_differences(self, case, seed):
        q, v, t, lam, d = state = case.random(seed)
        here = case.at(*state)
        held = here["g"].shape[0]

        slope = case.difference("g", *state, along=v, rate=1.0)
        close(here["rate"][:held], slope)
        columns = [case.difference("g", *state, along=e) for e in np.eye(case.nv)]
        close(here["G"][:held], np.stack(columns, axis=1))
        close(-here["gamma"], case.difference("rate", *state, along=v, rate=1.0))
        close(here["force along d"], case.difference("force", *state, along=d))
        # the rows that hold no position are linear in v, with A as their derivative
        rest = case.at(q, 0 * v, t, lam, d)["rate"]
        close(here["rate"], rest + here["G"] @ v)

    def test_reactions_balance_and_do_no_work(self, case, request):
        q, v, _, lam, _ = state = case.assembled(4)
        here = case.at(*state)
        assert here["G"].shape == (case.rows, case.nv)
        close(here["force"], here["G"].T @ lam)

        _, s, vt = np.linalg.svd(here["G"])
        null = vt[np.sum(s > 1e-9) :]
        allowed = null.T @ (null @ v)
        assert abs(lam @ here["G"] @ allowed) < 1e-12 * (1 + np.linalg.norm(here["force"]))

        if request.node.callspec.params["case"] not in AGAINST_THE_WORLD:
            wrench = here["force"].reshape(case.dof, case.n)
            d = 2 if case.planar else 3
            force, r = wrench[:d].T, q.reshape(-1, case.n)[:d].T
            close(force.sum(0), np.zeros(d))
            moment = np.cross(np.pad(r, ((0, 0), (0, 3 - d))), np.pad(force, ((0, 0), (0, 3 - d))))
            torque = wrench[d:].T
            if case.planar:
                close(moment.sum(0)[2] + torque.sum(), 0.0)
            else:
                A = [matrix(e) for e in q.reshape(-1, case.n)[3:].T]
                turned = np.stack([R @ x for R, x in zip(A, torque)])
                close((moment + turned).sum(0), np.zeros(3))

    def test_start_satisfies_it_and_it_takes_its_freedoms(self, case, request):
        q, _ = case.model.start_vectors()
        found = hx.diagnose(case.system, q)
        assert (found.rows, found.mobility) == (case.rows, case.nv - case.rows)
        name = request.node.callspec.params["case"]
        elsewhere = ("distance driver", "coordinate", "custom", "rolling")
        if not any(word in name for word in elsewhere):
            g = case.at(q, np.zeros(case.nv), 0.0, np.zeros(case.rows), np.zeros(case.nv))["g"]
            close(g, np.zeros_like(g))


def matrix(e):
    w, x, y, z = e
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
