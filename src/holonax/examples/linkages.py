"""Slider-cranks and other closed linkages."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import checked_call
from .._numbers import count
from ..model import Model, box, rod
from ..start.consistent import Start, consistent
from ..system import FunctionSystem
from .describing import Options, described


@checked_call
def slider_crank() -> tuple[FunctionSystem, Start]:
    """Slider-crank in four coordinates (crank, rod, x, y of the rod's centre), three constraints.

    Welch et al. 2007, Section 6.2; Wu et al. 2000: crank 0.3 m, rod 0.5 m, its centre of mass 0.3 m
    from the crank pin, released from rest with the crank at 0.9851 rad.
    """
    crank, rod, offset = 0.3, 0.5, 0.3

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        return jnp.array(
            [
                crank * jnp.cos(q[0]) + offset * jnp.cos(q[1]) - q[2],
                crank * jnp.sin(q[0]) + offset * jnp.sin(q[1]) - q[3],
                (rod - offset) * jnp.sin(q[1]) + q[3],
            ]
        )

    system = FunctionSystem(
        mass=lambda q, p: jnp.array([p["J1"], p["J2"], p["m"], p["m"]]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, 0.0, -p["m"] * p["g"]]),
        constraint=constraint,
        potential=lambda q, p: p["m"] * p["g"] * q[3],
        parameters={"J1": 0.045, "J2": 33 / 4800, "m": 1.0, "g": 10.0},
        coordinate_names=["crank", "rod", "x", "y"],
        constraint_names=["crank pin", "crank pin", "slider"],
    )
    return system, consistent(system, [0.9851, -0.5236, 0.4256, 0.1], hold=["crank"])


@described
def four_bar() -> tuple[Model, Options]:
    """Planar four-bar: crank 0.2 m, coupler 0.5 m, rocker 0.4 m on a base of 0.6 m.

    A crank-rocker by Grashof's rule, of rods of 1, 2 and 1.5 kg, whose crank starts at 10 rad/s;
    coupler and rocker are near their places, and are assembled.
    """
    model = Model()
    model.planar_body("crank", rod(0.2, mass=1.0), position=(0.1, 0.0), angular_velocity=10.0)
    model.planar_body("coupler", rod(0.5, mass=2.0), position=(0.4, 0.2), angle=0.9)
    model.planar_body("rocker", rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-0.25, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.25, 0.0), at_b=(0.2, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
    return model, {"hold": ["crank"], "hold_velocity": ["crank.angle"]}


@described
def slider_crank_with_spring(
    *, stiffness: float = 1e6, damping: float = 5e4
) -> tuple[Model, Options]:
    """Planar slider-crank, from rest, whose slider is pushed by a stiff spring and damper.

    Haug, Negrut and Iancu 1997, Section 4.2: a crank of 0.6 m and 3 kg, upright at the start, and
    a rod of 1.2 m and 9 kg, whose tip slides along x. Not legible, and chosen here: `stiffness`
    [N/m] and `damping` [N s/m], for which motions of the slider (10 kg seen from there) decay at
    5000 1/s and 20 1/s; and the spring's far end, on the slider's line at x = 2 m, and its free
    length of 1 m. At the start it is 39 mm shorter; relaxed it would leave all at rest, because
    the upright crank is in equilibrium.
    """
    model = Model(gravity=(0.0, -9.81))
    tip = (1.2 * np.cos(np.pi / 6), 0.0)
    crank = model.planar_body("crank", rod(0.6, mass=3.0), position=(0, 0.3), angle=np.pi / 2)
    arm = model.planar_body("rod", rod(1.2, mass=9.0), position=(tip[0] / 2, 0.3), angle=-np.pi / 6)
    model.revolute("shaft", model.ground, crank, at=(0.0, 0.0))
    model.revolute("crank pin", crank, arm, at=(0.0, 0.6))
    model.pin_in_slot("slider", model.ground, arm, at=tip, direction=(1.0, 0.0))
    model.spring_damper(
        "spring",
        model.ground,
        arm,
        at=((2.0, 0.0), tip),
        stiffness=stiffness,
        damping=damping,
        length=1.0,
    )
    return model, {}


@described
def spatial_slider_crank() -> tuple[Model, Options]:
    """Crank about x, a rod in space on a ball and a cardan joint, and a slider along x.

    Haug 1989, Section 12.2, with the start of the IFToMM library of multibody benchmarks: crank
    0.08 m and 0.12 kg with its centre of mass on its shaft, at (0, 0.1, 0.12) m, upright and
    turning at 6 rad/s; rod 0.3 m and 0.5 kg; slider 2 kg at x = 0.2 m; gravity along -z.
    """
    model = Model(gravity=(0.0, 0.0, -9.81))
    shaft, pin, end = np.array([[0.0, 0.1, 0.12], [0.0, 0.1, 0.2], [0.2, 0.0, 0.0]])
    along = (end - pin) / 0.3
    arm = np.cross([1.0, 0.0, 0.0], along)
    arm /= np.linalg.norm(arm)
    rotation = np.column_stack([along, arm, np.cross(along, arm)])
    crank = model.body(
        "crank", 0.12, (1e-4, 1e-5, 1e-4), position=shaft, angular_velocity=(6.0, 0.0, 0.0)
    )
    bar = model.body("rod", 0.5, (4e-4, 4e-3, 4e-3), position=(pin + end) / 2, rotation=rotation)
    slider = model.body("slider", 2.0, (1e-4, 1e-4, 1e-4), position=end)
    model.revolute("shaft", model.ground, crank, at=shaft, axis=(1.0, 0.0, 0.0))
    model.spherical("crank pin", crank, bar, at=pin)
    model.universal("cross", bar, slider, at=end, axes=(arm, (1.0, 0.0, 0.0)))
    model.prismatic("guide", model.ground, slider, at=end, axis=(1.0, 0.0, 0.0))
    return model, {"hold_velocity": ["crank"]}


@described
def n_four_bar(n: int = 40) -> tuple[Model, Options]:
    """A row of `n` square four-bars, 2n + 1 links of 1 m and 1 kg, one degree of freedom.

    IFToMM library of multibody benchmarks, problem A02 (n = 40), after Bayo and Avello 1994. The
    n + 1 cranks start upright with their upper joints at 1 m/s to the right. Whenever all links
    lie on one line the mechanism has n + 1 degrees of freedom: a singular configuration, which it
    passes twice in each turn.
    """
    n = count("n_four_bar", "n", n)
    model = Model(gravity=(0.0, -9.81))
    link = rod(1.0, mass=1.0)
    for i in range(n + 1):
        crank = model.planar_body(
            f"crank {i}",
            link,
            position=(i, 0.5),
            angle=np.pi / 2,
            velocity=(0.5, 0.0),
            angular_velocity=-1.0,
        )
        model.revolute(f"A{i}", model.ground, crank, at=(i, 0.0))
    for i in range(n):
        coupler = model.planar_body(
            f"coupler {i}", link, position=(i + 0.5, 1.0), velocity=(1.0, 0.0)
        )
        model.revolute(f"B{i} left", f"crank {i}", coupler, at=(i, 1.0))
        model.revolute(f"B{i + 1} right", coupler, f"crank {i + 1}", at=(i + 1, 1.0))
    return model, {}


@described
def bricard() -> tuple[Model, Options]:
    """Bricard's linkage: five square bars along edges of a cube and six hinges, from rest.

    IFToMM library of multibody benchmarks, problem A04: bars of 1 m and 1 kg with a section of
    0.1 m, each hinge normal to both bars it joins, gravity along -y; the ground is the sixth bar.
    Counting finds no degree of freedom, but there is one: the constraints are dependent.
    """
    edges = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 1], [-1, 0, 0], [0, 1, 0], [0, 0, -1]], float)
    corners = np.cumsum(edges, axis=0) - edges
    model = Model(gravity=(0.0, -9.81, 0.0))
    names = [f"bar {i}" for i in range(5)]
    for name, corner, edge in zip(names, corners, edges, strict=False):
        model.body(name, box(0.1 + 0.9 * np.abs(edge), mass=1.0), position=corner + edge / 2)
    for i, (first, second) in enumerate(zip(["ground", *names], [*names, "ground"], strict=True)):
        axis = np.cross(edges[i - 1], edges[i])
        model.revolute(f"hinge {i}", first, second, at=corners[i], axis=axis)
    return model, {}
