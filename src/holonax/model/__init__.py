"""What the user describes: named bodies, joints and forces."""

from .bodies import Body
from .body_modes import BodyModes
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
from .sections import Section
from .shape_integrals import Marker, ShapeIntegrals
from .shapes import Shape

__all__ = [
    "Body",
    "Marker",
    "MassProperties",
    "Model",
    "ModelError",
    "BodyModes",
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
