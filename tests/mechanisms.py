"""Small systems shared by the tests, built once so that their compiled programs are shared too."""

from functools import cache

import numpy as np

import holonax as hx


@cache
def slider_crank():
    """The slider-crank of four coordinates as functions, with a consistent start."""
    return hx.examples.slider_crank()


@cache
def two_link_arm(case):
    """The two-link arm whose end is bound to a parabola (1) or to a height that moves (2)."""
    return hx.examples.two_link_arm({1: "I", 2: "II"}[case])


@cache
def spherical_chain(n, solver="auto"):
    """A chain of `n` boxes of 1 m and 1 kg on spherical joints, starting along x."""
    model = hx.Model(gravity=(0, 0, -9.81))
    previous = model.ground
    for i in range(n):
        link = model.body(f"link{i}", hx.box((1.0, 0.1, 0.1), mass=1.0), position=(i + 0.5, 0, 0))
        model.spherical(f"ball{i}", previous, link, at=(i, 0, 0))
        previous = link
    return model.build(solver=solver)


def few_points(modes: int) -> hx.BodyModes:
    """A spatial body of a few points along x, with `modes` smooth shapes that turn its points."""
    rng = np.random.default_rng(1)
    p = np.stack([np.linspace(0, 1, 6), 0.1 * rng.normal(size=6), 0.1 * rng.normal(size=6)], axis=1)
    return hx.BodyModes(
        p,
        np.full(6, 0.2),
        np.einsum("ni,iak->nak", p**2, rng.normal(size=(3, 3, modes))),
        turns=rng.normal(size=(6, 3, modes)),
        inertias=np.full((6, 3), 1e-3),
        stiffness=np.diag(np.linspace(50.0, 200.0, modes)),
        damping=0.1 * np.eye(modes),
        markers={"middle": 2, "end": 5},
    )


@cache
def modal_chain(n, solver="auto", *, coupled=False, modes=3):
    """`n` boxes on spherical joints that hang on a body with modes. Coupled: with a spring from
    that body to the last box, and a bushing from it to another body with modes, which closes a
    loop to the ground."""
    model = hx.Model()
    part = few_points(modes)
    model.modal_body("part", part)
    model.revolute("pin", "ground", "part", at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    previous, end = "part.end", np.asarray(part.points)[5]
    box = hx.box((0.5, 0.03, 0.02), mass=0.3)
    for i in range(n):
        place = end + np.array([0.5 * i, 0.0, 0.0])
        model.body(f"link{i}", box, position=place + np.array([0.25, 0.0, 0.0]))
        model.spherical(f"ball{i}", previous, f"link{i}", at=place)
        previous = f"link{i}"
    if coupled:
        model.modal_body("other", part, position=(0.0, 1.0, 0.0))
        model.spherical("foot", "ground", "other", at=(0.0, 1.0, 0.0))
        model.distance("tie", "other.end", previous)
        model.spring_damper("spring", "part.middle", previous, stiffness=30.0, damping=0.3)
        model.spring_damper("cross", "part.end", "other.middle", stiffness=20.0, damping=0.1)
    return model.build(solver=solver)


def planar_modes(solver="auto"):
    """The slider-crank of the IVP test set, whose connecting rod has modes."""
    mechanism, _ = hx.examples.modal_slider_crank()
    said = mechanism.origin.to_dict(mechanism.numbers)
    return hx.Model.from_dict(said).build(solver=solver)


@cache
def spring_four_bar():
    """A planar four-bar whose rocker hangs on a spring, moving."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0), angular_velocity=10.0)
    model.planar_body("coupler", hx.rod(0.5, mass=2.0), position=(0.4, 0.2), angle=0.9)
    model.planar_body("rocker", hx.rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-0.25, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.25, 0.0), at_b=(0.2, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
    model.spring_damper("spring", "ground", "rocker", stiffness=50.0, damping=1.0, length=0.3)
    return model.build(hold=["crank"], hold_velocity=["crank.angle"])


@cache
def spring_chain(n=10):
    """A chain as `spherical_chain`, turning about its first joint, its last link on a spring."""
    model = hx.Model(gravity=(0, 0, -9.81))
    previous, at = model.ground, (0.0, 0.0, 0.0)
    for i in range(n):
        link = model.body(
            f"link{i}",
            hx.box((1.0, 0.1, 0.1), mass=1.0),
            position=(i + 0.5, 0, 0),
            velocity=(0, 0, -0.5 * (i + 0.5)),
            angular_velocity=(0, 0.5, 0),
        )
        model.spherical(f"ball{i}", previous, link, at_a=at, at_b=(-0.5, 0.0, 0.0))
        previous, at = link, (0.5, 0.0, 0.0)
    model.spring_damper("spring", "ground", previous, stiffness=50.0, damping=1.0, length=9.0)
    return model.build()
