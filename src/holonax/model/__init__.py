"""What the user describes: named bodies, joints and forces."""

from .bodies import Body, ModelError
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
from .model import Model

__all__ = [
    "Body",
    "MassProperties",
    "Model",
    "ModelError",
    "box",
    "composite",
    "cylinder",
    "disc",
    "point_mass",
    "rod",
    "sphere",
    "tube",
]
