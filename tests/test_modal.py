"""Bodies with modes, against rigid bodies, theory of beams, geometrically exact beams and the
slider-crank of the test set for IVP solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, sparse

import holonax as hx

L, E, DENSITY, SIDE = 1.0, 70e9, 2700.0, 0.02
A, I = SIDE**2, SIDE**4 / 12


def frame_matrices(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass and stiffness of a straight beam along x of n elements (Euler, Bernoulli) with six
    degrees of freedom a node, and its nodes."""
    h, G, J = L / n, E / 2.6, 2 * I
    m = DENSITY * A * h
    bend = (
        E
        * I
        / h**3
        * np.array(
            [
                [12, 6 * h, -12, 6 * h],
                [6 * h, 4 * h**2, -6 * h, 2 * h**2],
                [-12, -6 * h, 12, -6 * h],
                [6 * h, 2 * h**2, -6 * h, 4 * h**2],
            ]
        )
    )
    move = (
        m
        / 420
        * np.array(
            [
                [156, 22 * h, 54, -13 * h],
                [22 * h, 4 * h**2, 13 * h, -3 * h**2],
                [54, 13 * h, 156, -22 * h],
                [-13 * h, -3 * h**2, -22 * h, 4 * h**2],
            ]
        )
    )
    bar, rod = np.array([[1, -1], [-1, 1]]), np.array([[2, 1], [1, 2]]) / 6
    k, M_e = np.zeros((12, 12)), np.zeros((12, 12))
    flip = np.diag([1.0, -1.0, 1.0, -1.0])  # a turn about y is minus the slope of z
    for dofs, own, mass in (
        ([0, 6], E * A / h * bar, m * rod),
        ([3, 9], G * J / h * bar, DENSITY * 2 * I * h * rod),
        ([1, 5, 7, 11], bend, move),
        ([2, 4, 8, 10], flip @ bend @ flip, flip @ move @ flip),
    ):
        k[np.ix_(dofs, dofs)] += own
        M_e[np.ix_(dofs, dofs)] += mass
    M, K = np.zeros((2, 6 * n + 6, 6 * n + 6))
    for e in range(n):
        here = slice(6 * e, 6 * e + 12)
        M[here, here] += M_e
        K[here, here] += k
    nodes = np.stack([np.linspace(0, L, n + 1), np.zeros(n + 1), np.zeros(n + 1)], axis=1)
    return M, K, nodes


def lumped_rod(k: int, n: int = 40) -> hx.BodyModes:
    """A body of points with smooth shapes that are no modes of anything in particular."""
    rng = np.random.default_rng(1)
    p = rng.normal(size=(n, 3)) * [1.0, 0.3, 0.2]
    a, b = rng.normal(size=(2, 3, 3, k))
    shapes = np.einsum("ni,iak->nak", p, a) + np.einsum("ni,iak->nak", p**2, b)
    turns = rng.normal(size=(n, 3, k))
    inertias = np.full((n, 3), 1e-3)
    K = np.diag(np.linspace(50.0, 200.0, k)) if k else np.zeros(0)
    masses = rng.uniform(0.5, 1.5, n) / n
    return hx.BodyModes(
        p, masses, shapes, turns=turns, inertias=inertias, stiffness=K, markers={"tip": 0, "end": 5}
    )


def frequencies(model: hx.Model) -> np.ndarray:
    """Of small vibrations about the described state [rad/s], rising."""
    found = np.asarray(hx.linearize(*model.build()).modes().angular_frequency)
    return np.sort(found[found > 1e-3])


# -- without modes it is a rigid body ----------------------------------------------------------


@pytest.mark.slow
def test_without_modes_it_is_a_rigid_body():
    modes = lumped_rod(0)
    p, m = np.asarray(modes.points), np.asarray(modes.masses)
    com = m @ p / m.sum()
    s = p - com
    J = np.einsum("n,nij->ij", m, (s**2).sum(1)[:, None, None] * np.eye(3)) - (s.T * m) @ s
    J += np.diag(np.asarray(modes.inertias).sum(0))
    start: Any = {
        "position": (0.1, 0.2, 0.3),
        "rotation": (0.3, -0.5, 0.7),
        "angular_velocity": (1.0, 2.0, -3.0),
    }

    def built(flexible: bool) -> tuple[Any, hx.Start]:
        model = hx.Model()
        if flexible:
            model.modal_body("part", modes, **start)
        else:
            model.body("part", m.sum(), J, com=com, **start)
        model.spherical("pin", "ground", "part", at=(0.1, 0.2, 0.3))
        end, local = ("part.end", (0, 0, 0)) if flexible else ("part", p[5])
        model.spring_damper(
            "spring", "ground", end, at_a=(0, 0, 0), at_b=local, stiffness=3.0, length=0.1
        )
        return model.build()

    (one, a), (two, b) = built(True), built(False)
    assert_allclose(a.lam, b.lam, rtol=1e-12)
    assert_allclose(a.a[3:6], b.a[3:6], rtol=1e-12)
    assert_allclose(one.kinetic_energy(a.q, a.v), two.kinetic_energy(b.q, b.v), rtol=1e-13)
    assert_allclose(one.potential_energy(a.q), two.potential_energy(b.q), rtol=1e-13)
    moved = one.frame_of("part.end", a.q, a.v)
    fixed = two.frame_of("part", b.q, b.v).at(hx.Vec3.of(p[5]))
    assert_allclose(moved.r.array(), fixed.r.array(), rtol=1e-13)
    assert_allclose(moved.v.array(), fixed.v.array(), rtol=1e-13)


# -- free in space: what is conserved -----------------------------------------------------------


def test_a_free_body_keeps_momentum_and_energy():
    model = hx.Model(gravity=(0, 0, 0))
    model.modal_body(
        "part",
        lumped_rod(3),
        rotation=(0.2, 0.1, -0.4),
        velocity=(0.3, -0.1, 0.2),
        angular_velocity=(2.0, -1.0, 1.5),
        amplitudes=(0.05, -0.03, 0.02),
        rates=(0.1, 0.3, -0.2),
    )
    result = model.simulate(2.0, rtol=1e-10)
    linear, angular = result.momentum()
    assert_allclose(linear, np.broadcast_to(linear[0], linear.shape), atol=1e-10)
    assert_allclose(angular, np.broadcast_to(angular[0], angular.shape), atol=1e-9)
    energy = result.energy.total
    assert_allclose(energy, energy[0], rtol=1e-9)
    assert np.ptp(result.energy.kinetic) > 0.1 * energy[0]  # it does deform


def test_accelerations_are_those_of_the_points():
    """The mass matrix and the inertia forces, from sums over points and finite differences."""
    modes = lumped_rod(3)
    model = hx.Model(gravity=(0, 0, 0))
    model.modal_body("part", modes, amplitudes=(0.1, -0.2, 0.3))
    system, start = model.build()
    q = np.asarray(start.q)
    v = np.random.default_rng(3).normal(size=9)
    p, m, phi = (np.asarray(x) for x in (modes.points, modes.masses, modes.shapes))

    def velocities(q: Any, v: Any) -> np.ndarray:
        frame = system.frame_of("part", q, v)
        Amat = np.stack([np.asarray(x) for x in (frame.A.x, frame.A.y, frame.A.z)], axis=1)
        s = p + phi @ np.asarray(q[7:])
        return v[:3] + (np.cross(v[3:6], s) + phi @ v[6:]) @ Amat.T

    kinetic = 0.5 * np.einsum("n,na,na->", m, velocities(q, v), velocities(q, v))
    turning = v[3:6] + np.asarray(modes.turns) @ v[6:]
    kinetic += 0.5 * np.einsum("na,na,na->", np.asarray(modes.inertias), turning, turning)
    assert_allclose(system.kinetic_energy(q, v), kinetic, rtol=1e-13)


# -- against theory and beams ---------------------------------------------------------------------


def test_a_cantilever_has_the_frequencies_of_theory():
    M, K, nodes = frame_matrices(12)
    modes = hx.BodyModes.from_matrices(M, K, nodes, boundary={"root": 0}, frame="root", count=6)
    model = hx.Model(gravity=(0, 0, 0))
    model.modal_body("beam", modes)
    model.fixed("clamp", "ground", "beam.root")
    found = frequencies(model)[::2][:3]
    theory = np.array([1.8751040687, 4.6940911330, 7.8547574382]) ** 2
    theory *= np.sqrt(E * I / (DENSITY * A * L**4))
    assert_allclose(found, theory, rtol=2e-4)  # 12 elements


@pytest.mark.slow
def test_a_reduction_keeps_the_low_modes_of_the_held_part():
    """With free modes or with those of a held node the part, clamped by a joint, is the same."""
    M, K, nodes = frame_matrices(10)
    exact = np.sqrt(linalg.eigh(K[6:, 6:], M[6:, 6:], eigvals_only=True))

    def found(frame: Any, M: Any, K: Any) -> np.ndarray:
        ends = {"root": 0, "tip": 10}
        modes = hx.BodyModes.from_matrices(M, K, nodes, boundary=ends, frame=frame, count=8)
        model = hx.Model(gravity=(0, 0, 0))
        model.modal_body("beam", modes)
        model.fixed("clamp", "ground", "beam.root")
        return frequencies(model)

    free, held = found(None, sparse.csr_matrix(M), sparse.csr_matrix(K)), found("root", M, K)
    assert_allclose(free, held, rtol=1e-7)
    assert_allclose(held[:4], exact[:4], rtol=3e-4)  # eight modes with both ends held
    assert np.all(held[:4] > exact[:4])


@pytest.mark.slow
def test_a_load_at_the_boundary_bends_it_exactly():
    """The deformations at rest are among the modes, however few others there are."""
    M, K, nodes = frame_matrices(10)
    modes = hx.BodyModes.from_matrices(M, K, nodes, boundary={"root": 0, "tip": 10}, count=0)
    model = hx.Model(gravity=(0, 0, 0))
    model.modal_body("beam", modes)
    model.fixed("clamp", "ground", "beam.root")
    model.force("load", "beam.tip", force=(0, 0, 1e-3))
    rest = model.equilibrium()
    assert_allclose(rest["beam.tip"].position[2], 1e-3 * L**3 / (3 * E * I), rtol=1e-7)


DOWN = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])


def test_a_stiff_pendulum_swings_as_a_rigid_one():
    M, K, nodes = frame_matrices(8)
    modes = hx.BodyModes.from_matrices(M, K, nodes, frame=0, count=4)  # bending: it hangs at rest
    model = hx.Model()
    model.modal_body("rod", modes, rotation=DOWN)
    model.revolute("pin", "ground", "rod", at=(0, 0, 0), axis=(0, 1, 0))
    assert_allclose(frequencies(model)[0], np.sqrt(1.5 * 9.81 / L), rtol=1e-4)


@pytest.mark.slow
def test_a_pendulum_vibrates_as_one_of_exact_beams():
    """Small vibrations of a hinged beam by modes and by `model.beam`."""
    section = hx.Section.rectangle(SIDE, SIDE, E=E, G=E / 2.6, density=DENSITY)
    M, K, nodes = frame_matrices(16)
    modes = hx.BodyModes.from_matrices(M, K, nodes, boundary={"root": 0, "tip": 16}, count=6)
    one, two = (hx.Model(gravity=(0, 0, 0)) for _ in range(2))
    one.modal_body("rod", modes, rotation=DOWN)
    two.beam("rod", (0, 0, 0), (0, 0, -L), section=section, elements=8, order=2, up=(1, 0, 0))
    one.revolute("pin", "ground", "rod.root", at=(0, 0, 0), axis=(0, 1, 0))
    two.revolute("pin", "ground", "rod.start", at=(0, 0, 0), axis=(0, 1, 0))
    a, b = (frequencies(x) for x in (one, two))
    # bending both ways; shear and rotary inertia, which lower them, are the beam's alone
    assert_allclose(a[:3], b[:3], rtol=3e-3)


# -- every kind of method ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formulation", "integrator", "error"),
    [
        (hx.Index3(), hx.GeneralizedAlpha(0.9), 3e-6),
        (hx.PostStabilized("both", passes=2), hx.RK4(), 1e-9),
        (hx.Index3(), hx.RadauIIA(2), 1e-7),
        (hx.GGL(), hx.RadauIIA(2), 1e-7),
        (hx.GGL(), hx.BDF(2), 1e-4),
        (hx.Index2(), hx.BDF(2), 1e-4),
    ],
)
def test_every_kind_of_method_takes_it(formulation: Any, integrator: Any, error: float):
    system, start = hx.examples.modal_slider_crank()
    exact = hx.simulate(system, start, 0.002, rtol=1e-10).q[-1]
    run = hx.simulate(system, start, 0.002, dt=5e-6, formulation=formulation, integrator=integrator)
    assert run.success
    assert_allclose(run.q[-1], exact, atol=error)


# -- records -----------------------------------------------------------------------------------


def test_it_is_kept_in_files(tmp_path: Any):
    planar, _ = hx.examples.model_of("modal_slider_crank")
    spatial = hx.Model()
    spatial.modal_body("rod", lumped_rod(2), position=(1, 2, 3), amplitudes=(0.1, 0.2))
    for model in (planar, spatial):
        again = hx.Model.from_dict(model.to_dict())
        assert again.to_dict() == model.to_dict() and again["rod"] == model["rod"]
        for name in ("rod.toml", "rod.json"):
            model.save(tmp_path / name)
            again = hx.load(tmp_path / name)
            assert again.to_dict() == model.to_dict() and again["rod"] == model["rod"]


def test_its_numbers_can_be_changed():
    system, start = hx.examples.modal_slider_crank()
    K = system.parameters()["rod.modes.stiffness"]
    other = system.with_parameters({"rod.modes.stiffness": 4 * K})
    q = np.asarray(start.q).copy()
    q[-1] = 1e-4
    elastic = lambda x: float(x.potential_energy(q))  # noqa: E731
    assert_allclose(elastic(other), 4 * elastic(system), rtol=1e-12)


def rod(**changes: Any) -> hx.BodyModes:
    given: dict[str, Any] = {
        "points": np.diag([1.0, 2.0, 3.0]),
        "masses": np.ones(3),
        "shapes": np.stack([np.diag([1.0, 0, 0]), np.diag([0, 1.0, -1.0])], axis=2),
        "stiffness": np.ones(2),
    }
    return hx.BodyModes(**{**given, **changes})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rod(masses=[1.0, -1.0, 1.0]), "mass of point 1 is negative"),
        (lambda: rod(stiffness=None), "missing. Give either frequencies"),
        (lambda: rod(stiffness=np.array([[1.0, 0], [0.5, 1]])), "not symmetric"),
        (lambda: rod(stiffness=np.array([1.0, -1.0])), "eigenvalue -1, most of it in mode 1"),
        (lambda: rod(markers={"tip": 3}), "marker 'tip' is 3, and there are 3 points"),
        (lambda: rod(markers={"tip": hx.Marker((0, 0, 0), np.eye(3))}), "marker 'tip': shape"),
        (lambda: rod(shapes=np.zeros((3, 3))), "shapes has the shape"),
        (lambda: hx.Model().modal_body("part", 3.0), "body 'part': modes=3.0 are none"),
        (
            lambda: hx.Model().modal_body("part", rod(markers={"x": 0})),
            "body 'part': a marker cannot be called 'x'",
        ),
        (
            lambda: hx.Model().modal_body("part", rod(shapes=np.ones((3, 3, 2)))),
            "body 'part': mode . moves the body as a whole",
        ),
        (
            lambda: hx.Model().modal_body("part", rod(shapes=np.zeros((3, 3, 2)))),
            "body 'part': mode 0 moves no mass",
        ),
        (
            lambda: hx.Model().planar_modal_body("part", rod()),
            "vectors of 3 components. Describe it with modal_body",
        ),
        (lambda: hx.BodyModes.from_matrices(np.eye(4), np.eye(4), [[0, 0, 0]]), "go with 1 nodes"),
        (
            lambda: hx.BodyModes.from_matrices(np.eye(12), np.eye(12), np.eye(3)[:2], count=2),
            "resists motions of the whole part",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(make: Any, words: str):
    with pytest.raises(hx.ModelError, match=words):
        make()


def test_methods_that_need_a_constant_mass_are_refused():
    system, start = hx.examples.modal_slider_crank()
    with pytest.raises(ValueError, match="EnergyPreserving needs a constant one"):
        hx.simulate(
            system, start, 0.1, dt=0.01, formulation=hx.Index3(), integrator=hx.EnergyPreserving()
        )
