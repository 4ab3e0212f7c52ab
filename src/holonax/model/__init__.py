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
from .sections import Section
from .shapes import Shape

__all__ = [
    "Body",
    "MassProperties",
    "Model",
    "ModelError",
    "Section",
    "Shape",
    "box",
    "composite",
    "cylinder",
    "disc",
    "point_mass",
    "rod",
    "sphere",
    "tube",
]
