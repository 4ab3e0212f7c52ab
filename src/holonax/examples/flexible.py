"""Mechanisms with beams and cables: from a cantilever to a rotor, and Bauchau's beam that buckles
sideways. Where nothing else is said the data are of our own."""

from __future__ import annotations

import math

from .._numbers import finite_number
from ..model import Model, Section
from .describing import Options, described, run_as

# Thin beams are stiff: explicit steps follow the shearing of their sections, some microseconds.
# Steps that resolve the bending are what is wanted of these.
_BENDING = {"formulation": "Index3", "integrator": "GeneralizedAlpha"}


@run_as(t_end=2.0, dt=0.001, **_BENDING)
@described
def whirling_rod(elements: int = 8, modulus: float = 5e9) -> tuple[Model, Options]:
    """A rod of 1 m that whirls about a ball joint at its end, with the initial spin of a rigid one.

    A flat of 20 x 10 mm, 1000 kg/m^3, with Young's `modulus` [Pa]: stiff for steps that resolve
    the whirling only. Data of our own.
    """
    modulus = finite_number("whirling_rod", "modulus", modulus, positive=True)
    model = Model()
    section = Section.rectangle(0.02, 0.01, E=modulus, G=modulus / 2.6, density=1000.0)
    spin = (0.0, 1.0, 8.0)
    model.beam(
        "rod", (0, 0, 0), (1, 0, 0), section=section, elements=elements, angular_velocity=spin
    )
    model.spherical("pin", "ground", "rod.start", at=(0, 0, 0))
    return model, {}


@run_as(t_end=1.0, dt=0.001, **_BENDING)
@described
def cantilever(elements: int = 8, order: int = 1) -> tuple[Model, Options]:
    """A steel flat of 0.5 m, 20 x 2 mm, clamped at one end, that is let go under its weight and a
    load of 2 N at its tip."""
    model = Model()
    section = Section.rectangle(0.02, 0.002, E=210e9, G=81e9, density=7800.0)
    model.beam("beam", (0, 0, 0), (0.5, 0, 0), section=section, elements=elements, order=order)
    model.fixed("root", "ground", "beam.start")
    model.force("load", "beam.end", force=(0.0, 0.0, -2.0))
    return model, {}


@run_as(t_end=1.0, dt=0.0005, **_BENDING)
@described
def flexible_slider_crank(elements: int = 8) -> tuple[Model, Options]:
    """A crank of 0.15 m, driven from rest to 20 rad/s, with a connecting rod of 0.3 m that bends,
    round steel of 6 mm. The slider has 0.5 kg."""
    model = Model(gravity=(0, 0, 0))
    pin, end = (0.15, 0, 0), (0.45, 0, 0)
    rod = Section.circle(0.003, E=210e9, G=81e9, density=7800.0)
    model.body("crank", 0.36, (1e-4, 7e-4, 7e-4), position=(0.075, 0, 0))
    model.body("slider", 0.5, (1e-4, 1e-4, 1e-4), position=end)
    model.beam("rod", pin, end, section=rod, up=(0, 0, 1), elements=elements)
    model.revolute("main", "ground", "crank", at=(0, 0, 0), axis=(0, 0, 1))
    model.revolute("big_end", "crank", "rod.start", at=pin, axis=(0, 0, 1))
    # a ball, and a slider that does not turn: nothing is held twice
    model.spherical("small_end", "rod.end", "slider", at=end)
    model.prismatic("guide", "ground", "slider", at=end, axis=(1, 0, 0))
    model.drive_angle("motor", joint="main", angle="20 * (t - 0.05 * (1 - exp(-20 * t)))")
    return model, {}


@run_as(t_end=1.5, dt=0.001, **_BENDING)
@described
def flexible_four_bar(elements: int = 6) -> tuple[Model, Options]:
    """A crank of 0.12 m, driven from rest to 12 rad/s, with a coupler and a rocker that bend:
    aluminium flats of 5 mm, 30 mm wide across the plane."""
    model = Model(gravity=(0, 0, 0))
    o, a, b, c = (0, 0, 0), (0.12, 0, 0), (0.36, 0.24, 0), (0.36, 0, 0)
    flat = Section.rectangle(0.005, 0.03, E=70e9, G=27e9, density=2700.0)
    model.body("crank", 0.1, (1e-5, 1.3e-4, 1.3e-4), position=(0.06, 0, 0))
    model.beam("coupler", a, b, section=flat, up=(0, 0, 1), elements=elements)
    model.beam("rocker", c, b, section=flat, up=(0, 0, 1), elements=elements)
    model.revolute("O", "ground", "crank", at=o, axis=(0, 0, 1))
    model.revolute("A", "crank", "coupler.start", at=a, axis=(0, 0, 1))
    model.spherical("B", "coupler.end", "rocker.end", at=b)
    model.revolute("C", "ground", "rocker.start", at=c, axis=(0, 0, 1))
    model.drive_angle("motor", joint="O", angle="12 * (t - 0.1 * (1 - exp(-10 * t)))")
    return model, {}


@run_as(t_end=1.0, dt=0.0005, **_BENDING)
@described
def rotor(blades: int = 3, spin: float = 20.0, elements: int = 6) -> tuple[Model, Options]:
    """A rotor of `blades` clamped to a hub on a shaft along z, that spins at `spin` [rad/s] as if
    it were rigid at first: composite flats of 2 m, 100 x 12 mm, 0.2 m from the axis."""
    spin = finite_number("rotor", "spin", spin)
    model = Model()
    flat = Section.rectangle(0.1, 0.012, E=20e9, G=6e9, density=1600.0)
    turning = (0.0, 0.0, spin)
    model.body("hub", 20.0, (0.3, 0.3, 0.5), angular_velocity=turning)
    model.revolute("shaft", "ground", "hub", at=(0, 0, 0), axis=(0, 0, 1))
    for k in range(blades):
        c, s = math.cos(2 * math.pi * k / blades), math.sin(2 * math.pi * k / blades)
        root = (0.2 * c, 0.2 * s, 0.0)
        model.beam(
            f"blade{k}",
            root,
            (2.2 * c, 2.2 * s, 0.0),
            section=flat,
            up=(0, 0, 1),
            elements=elements,
            velocity=(-spin * root[1], spin * root[0], 0.0),
            angular_velocity=turning,
        )
        model.fixed(f"root{k}", "hub", f"blade{k}.start")
    return model, {}


@run_as(t_end=10.0, dt=0.005, **_BENDING)
@described
def cable_in_wind(elements: int = 16) -> tuple[Model, Options]:
    """A steel cable of 8 mm between supports 40 m apart, 50 mm longer than the cable at rest, in a
    wind along y that gusts up to 20 N/m once in two seconds."""
    model = Model()
    model.cable(
        "cable",
        (0, 0, 0),
        (40, 0, 0),
        EA=5e6,
        mass=0.39,
        length=39.95,
        elements=elements,
        damping=0.02,
    )
    model.spherical("left", "ground", "cable.start", at=(0, 0, 0))
    model.spherical("right", "ground", "cable.end", at=(40, 0, 0))
    model.line_load("wind", "cable", force=(0.0, "10 * (1 - cos(pi * t))", 0.0))
    return model, {}


@run_as(t_end=1.6, dt=0.001, **_BENDING)
@described
def lateral_buckling(elements: int = 12) -> tuple[Model, Options]:
    """A thin cantilever that a crank lifts at its tip until it buckles sideways.

    Bauchau, Epple and Bottasso 2009, Section 9: an aluminium beam of 1 m, 100 mm deep and 2.5 mm
    wide, E = 73 GPa, nu = 0.3; a steel link of 0.5 m and a crank of 30 mm, tubes of 15 mm outer
    radius and 8 mm wall; the crank turns by 1.6 (1 - cos(2 pi t / 1.6)) rad, in a plane 5 mm beside
    the beam. Not in print, and assumed: densities of 2700 and 7800 kg/m^3, 210 GPa for steel, no
    weight, no damping, the link upright below the tip, the crank horizontal at first, and a
    connector of 5 mm between tip and link that is rigid.
    """
    aluminium = {"E": 73e9, "G": 73e9 / 2.6, "density": 2700.0}
    steel = {"E": 210e9, "G": 210e9 / 2.6, "density": 7800.0}
    flat = Section.rectangle(0.0025, 0.1, **aluminium)
    tube = Section.tube(0.015, 0.008, **steel)
    side = 0.005
    tip, low, pivot = (1.0, side, 0.0), (1.0, side, -0.5), (0.97, side, -0.5)
    model = Model(gravity=(0, 0, 0))
    model.beam("beam", (0, 0, 0), (1, 0, 0), section=flat, up=(0, 0, 1), elements=elements)
    model.beam("link", low, tip, section=tube, up=(1, 0, 0), elements=2)
    model.beam("crank", pivot, low, section=tube, up=(0, 0, 1), elements=1)
    model.fixed("root", "ground", "beam.start")
    model.spherical("C", "beam.end", "link.end", at=tip)
    model.revolute("L", "crank.end", "link.start", at=low, axis=(0, 1, 0))
    model.revolute("G", "ground", "crank.start", at=pivot, axis=(0, 1, 0))
    # about -y, so that the crank goes up
    model.drive_angle("motor", joint="G", angle="-1.6 * (1 - cos(2 * pi * t / 1.6))")
    return model, {}
