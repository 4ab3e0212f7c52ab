"""Small systems shared by the tests, built once so that their compiled programs are shared too."""

from functools import cache

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
