"""Rolled I sections by name: nominal dimensions after EN 10365, and what follows from them."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._messages import unknown_name
from .items import ModelError


class Profile(NamedTuple):
    """Height and width over all, thickness of web and flange, radius of the fillets [m]."""

    height: float
    width: float
    web: float
    flange: float
    fillet: float

    @property
    def area(self) -> float:
        """[m^2], fillets included."""
        inner = self.height - 2 * self.flange
        return 2 * self.width * self.flange + inner * self.web + 4 * self._fillet[0]

    @property
    def second_moments(self) -> tuple[float, float]:
        """About y and z [m^4]; the web is along z."""
        h, b, w, f, _ = self
        inner = h - 2 * f
        a, c, own = self._fillet
        Iy = (b * h**3 - (b - w) * inner**3) / 12 + 4 * (own + a * (inner / 2 - c) ** 2)
        Iz = (2 * f * b**3 + inner * w**3) / 12 + 4 * (own + a * (w / 2 + c) ** 2)
        return Iy, Iz

    @property
    def torsion(self) -> float:
        """J [m^4]: thin rectangles, less their free ends, more where web and flange meet (El
        Darwish and Johnston 1965, in the form of the manufacturers' tables)."""
        h, b, w, f, r = self
        circle = ((r + w / 2) ** 2 + (r + f) ** 2 - r * r) / (2 * r + f)  # inscribed, its diameter
        meeting = 2 * (w / f) * (0.145 + 0.1 * r / f) * circle**4
        return 2 / 3 * (b - 0.63 * f) * f**3 + (h - 2 * f) * w**3 / 3 + meeting

    @property
    def _fillet(self) -> tuple[float, float, float]:
        """Area, distance of the centroid from the walls, and second moment about it of the corner
        between two walls that a quarter of a circle leaves."""
        r = self.fillet
        area, first = r**2 * (1 - math.pi / 4), r**3 * (5 / 6 - math.pi / 4)
        return area, first / area, r**4 * (1 - 5 * math.pi / 16) - first**2 / area


# height, width, web, flange, fillet [mm]
_TABLE = {
    "IPE 80": (80, 46, 3.8, 5.2, 5),
    "IPE 100": (100, 55, 4.1, 5.7, 7),
    "IPE 120": (120, 64, 4.4, 6.3, 7),
    "IPE 140": (140, 73, 4.7, 6.9, 7),
    "IPE 160": (160, 82, 5.0, 7.4, 9),
    "IPE 180": (180, 91, 5.3, 8.0, 9),
    "IPE 200": (200, 100, 5.6, 8.5, 12),
    "IPE 220": (220, 110, 5.9, 9.2, 12),
    "IPE 240": (240, 120, 6.2, 9.8, 15),
    "IPE 270": (270, 135, 6.6, 10.2, 15),
    "IPE 300": (300, 150, 7.1, 10.7, 15),
    "IPE 330": (330, 160, 7.5, 11.5, 18),
    "IPE 360": (360, 170, 8.0, 12.7, 18),
    "IPE 400": (400, 180, 8.6, 13.5, 21),
    "IPE 450": (450, 190, 9.4, 14.6, 21),
    "IPE 500": (500, 200, 10.2, 16.0, 21),
    "IPE 550": (550, 210, 11.1, 17.2, 24),
    "IPE 600": (600, 220, 12.0, 19.0, 24),
    "HEA 100": (96, 100, 5.0, 8.0, 12),
    "HEA 120": (114, 120, 5.0, 8.0, 12),
    "HEA 140": (133, 140, 5.5, 8.5, 12),
    "HEA 160": (152, 160, 6.0, 9.0, 15),
    "HEA 180": (171, 180, 6.0, 9.5, 15),
    "HEA 200": (190, 200, 6.5, 10.0, 18),
    "HEA 220": (210, 220, 7.0, 11.0, 18),
    "HEA 240": (230, 240, 7.5, 12.0, 21),
    "HEA 260": (250, 260, 7.5, 12.5, 24),
    "HEA 280": (270, 280, 8.0, 13.0, 24),
    "HEA 300": (290, 300, 8.5, 14.0, 27),
    "HEA 320": (310, 300, 9.0, 15.5, 27),
    "HEA 340": (330, 300, 9.5, 16.5, 27),
    "HEA 360": (350, 300, 10.0, 17.5, 27),
    "HEA 400": (390, 300, 11.0, 19.0, 27),
    "HEB 100": (100, 100, 6.0, 10.0, 12),
    "HEB 120": (120, 120, 6.5, 11.0, 12),
    "HEB 140": (140, 140, 7.0, 12.0, 12),
    "HEB 160": (160, 160, 8.0, 13.0, 15),
    "HEB 180": (180, 180, 8.5, 14.0, 15),
    "HEB 200": (200, 200, 9.0, 15.0, 18),
    "HEB 220": (220, 220, 9.5, 16.0, 18),
    "HEB 240": (240, 240, 10.0, 17.0, 21),
    "HEB 260": (260, 260, 10.0, 17.5, 24),
    "HEB 280": (280, 280, 10.5, 18.0, 24),
    "HEB 300": (300, 300, 11.0, 19.0, 27),
    "HEB 320": (320, 300, 11.5, 20.5, 27),
    "HEB 340": (340, 300, 12.0, 21.5, 27),
    "HEB 360": (360, 300, 12.5, 22.5, 27),
    "HEB 400": (400, 300, 13.5, 24.0, 27),
}


def profile(name: object) -> Profile:
    """The profile of that name, ``"IPE 200"``; spaces and case do not matter."""
    plain = lambda x: str(x).replace(" ", "").upper()  # noqa: E731
    for known, sizes in _TABLE.items():
        if plain(known) == plain(name):
            return Profile(*(x / 1000 for x in sizes))
    raise ModelError(unknown_name("Section.profile", "profile", name, list(_TABLE)))
