"""What the user describes: named bodies, joints and forces."""

from .bodies import Body
from .inertia import (
    MassProperties,
    box,
    composite,
    cylinder,
    disc,
    point_mass,
    rod,
    sphere,
    tube,
)
from .items import ModelError
from .model import Model
from .modes import Modes
from .sections import Section
from .shape_integrals import Marker, ShapeIntegrals
from .shapes import Shape

__all__ = [
    "Body",
    "Marker",
    "MassProperties",
    "Model",
    "ModelError",
    "Modes",
    "Section",
    "Shape",
    "ShapeIntegrals",
    "box",
    "composite",
    "cylinder",
    "disc",
    "point_mass",
    "rod",
    "sphere",
    "tube",
]
