"""Mechanisms with beams: a whirling rod, and Bauchau's beam that buckles sideways."""

from __future__ import annotations

from .._numbers import finite_number
from ..model import Model, Section
from .describing import Options, described


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
