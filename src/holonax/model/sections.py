"""Cross-sections of beams: stiffness and mass per length, given or from a shape.

Section axes are x along the beam, y and z across it, from the centroid. The stiffness is that of
(extension, shear y, shear z, twist, bending about y, bending about z). Shear areas are Cowper's
(1966); sections keep their plane, and warping is not resisted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import numpy as np

from .. import _numbers
from .._arguments import checked_call
from .._messages import listed, shown
from .._numbers import as_array, is_traced, namespace
from .items import ModelError, plain
from .profiles import profile

_SHAPES = {"EA": (), "GA": (2,), "GJ": (), "EI": (2,), "mass": (), "inertia": (3,)}
_STIFF = ("EA", "GA", "GJ", "EI")


@dataclass(frozen=True)
class Section:
    """The cross-section of a beam.

    **Arguments:**

    - `EA`: extensional stiffness [N].
    - `GA`: shear stiffness along y and z [N], with the shear coefficients in it.
    - `GJ`: torsional stiffness [N m^2].
    - `EI`: bending stiffness about y and about z [N m^2].
    - `mass`: per length [kg/m].
    - `inertia`: per length about x, y and z [kg m]; by default that of a homogeneous section,
      mass * EI / EA about y and z, and their sum about x.
    - `stiffness`: the whole matrix instead (6, 6), where strains are coupled: symmetric, for
      (extension, shear y, shear z, twist, bending about y, bending about z).
    - `outline`: height and width (along z and y) [m] to draw it with.

    `Section.rectangle`, `circle`, `tube`, `i_beam`, `channel` and `profile` (rolled ones by name)
    know these for their shapes.
    """

    EA: Any = None
    GA: Any = None
    GJ: Any = None
    EI: Any = None
    mass: Any = None
    inertia: Any = None
    _: KW_ONLY
    stiffness: Any = None
    outline: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        given = [x for x in _STIFF if getattr(self, x) is not None]
        if self.stiffness is not None and given:
            raise ModelError(
                f"Section: {listed(given)} and stiffness say the same. Give either the matrix, or "
                "EA, GA, GJ and EI."
            )
        needed = ("mass",) if self.stiffness is not None else (*_STIFF, "mass")
        missing = [x for x in needed if getattr(self, x) is None]
        if missing:
            raise ModelError(
                f"Section: {listed(missing)} is missing. Give EA, GA, GJ, EI (or stiffness=, the "
                "6x6 matrix) and mass, all per length of the beam."
            )
        if self.stiffness is not None and self.inertia is None:
            raise ModelError(
                "Section: inertia is missing. Beside a stiffness matrix, give the inertia per "
                "length about x, y and z [kg m]."
            )
        for name, shape in {**_SHAPES, "stiffness": (6, 6), "outline": (2,)}.items():
            value = getattr(self, name)
            if value is not None:
                _numbers.array("Section", name, value, shape, error=ModelError)

    def __repr__(self) -> str:
        said = ((f.name, getattr(self, f.name)) for f in fields(self))
        words = ", ".join(f"{name}={shown(x)}" for name, x in said if x is not None)
        return f"Section({words})"

    # -- as a record has it ----------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """Its physical numbers by name."""
        names = (*_SHAPES, "stiffness")
        return {x: getattr(self, x) for x in names if getattr(self, x) is not None}

    def to_dict(self) -> dict[str, float | list[float]]:
        """Its numbers by name, as lists."""
        known = {**self.numbers(), "outline": self.outline}
        return {x: np.asarray(v).tolist() for x, v in known.items() if v is not None}

    @staticmethod
    def from_dict(owner: str, said: object) -> Section:
        """From what `to_dict` made."""
        known = [field.name for field in fields(Section)]
        if not isinstance(said, Mapping) or not all(x in known for x in said):
            raise ModelError(
                f"{owner}: section={shown(said)} is not a section. Give hx.Section(...), or a "
                f"dictionary with {listed(known)}."
            )
        return Section(**said)

    def changed(self, owner: str, name: str, value: object) -> Section:
        """With another number."""
        if name not in self.numbers():
            raise ModelError(
                f"{owner}: its section has no {name!r}. What it has is {listed(self.numbers())}."
            )
        return replace(self, **{name: value})

    # -- as elements have it ---------------------------------------------------------------

    def matrix(self) -> Any:
        """The stiffness (6, 6), or its diagonal (6,) where nothing is coupled."""
        if self.stiffness is not None:
            return as_array(self.stiffness)
        parts = [as_array(x) for x in (self.EA, self.GA, self.GJ, self.EI)]
        xp = namespace(*parts)
        return xp.concatenate([xp.ravel(x) for x in parts])

    def inertias(self) -> Any:
        """Mass and inertia per length (4,)."""
        mass = as_array(self.mass)
        if self.inertia is not None:
            own = as_array(self.inertia)
        else:
            EI = as_array(self.EI)
            own = mass * EI / as_array(self.EA)
            xp = namespace(own)
            own = xp.concatenate([xp.sum(own)[None], own])
        xp = namespace(mass, own)
        return xp.concatenate([mass[None], own])

    def fault(self) -> str | None:
        """What is wrong with its numbers, if anything is."""
        for name, value in self.numbers().items():
            if is_traced(value) or name == "stiffness":
                continue
            if np.min(value) <= 0:
                what = "has no area" if name == "EA" else "is not positive"
                return f"its section's {name}={shown(value)} {what}. Give positive numbers"
        if self.stiffness is None or is_traced(self.stiffness):
            return None
        K = np.asarray(self.stiffness)
        scale = np.sqrt(np.abs(np.diag(K)))
        scale = np.where(scale > 0, scale, 1.0)
        K = K / np.outer(scale, scale)
        if np.max(np.abs(K - K.T)) > 1e-9:
            return "its section's stiffness is not symmetric. A stiffness must be"
        if np.min(np.linalg.eigvalsh(K)) <= 1e-14:
            return "its section's stiffness is not positive definite. Give one whose energy is"
        return None

    # -- shapes ----------------------------------------------------------------------------

    @staticmethod
    @checked_call
    def rectangle(width: float, height: float, *, E: float, G: float, density: float) -> Section:
        """A solid rectangle, `width` along y and `height` along z [m], E and G [Pa]."""
        size = _sizes("rectangle", width=width, height=height, E=E, G=G, density=density)
        b, h, E, G, density = size
        k = _cowper(E, G, 10, 12, 11)
        I = (b * h**3 / 12, h * b**3 / 12)
        J = rectangle_torsion(b, h)
        return _homogeneous(b * h, (k, k), I, J, E, G, density, (h, b))

    @staticmethod
    @checked_call
    def circle(radius: float, *, E: float, G: float, density: float) -> Section:
        """A solid circle of `radius` [m], E and G [Pa]."""
        r, E, G, density = _sizes("circle", radius=radius, E=E, G=G, density=density)
        k = _cowper(E, G, 6, 7, 6)
        I = math.pi * r**4 / 4
        return _homogeneous(math.pi * r * r, (k, k), (I, I), 2 * I, E, G, density, (2 * r, 2 * r))

    @staticmethod
    @checked_call
    def tube(radius: float, thickness: float, *, E: float, G: float, density: float) -> Section:
        """A round tube of outer `radius` and wall `thickness` [m], E and G [Pa]."""
        r, w, E, G, density = _sizes(
            "tube", radius=radius, thickness=thickness, E=E, G=G, density=density
        )
        if w >= r:
            raise ModelError(
                f"Section.tube: thickness={w:g} is not less than the radius. Use Section.circle."
            )
        inner, nu = r - w, E / (2 * G) - 1
        m2 = (inner / r) ** 2
        whole = (1 + m2) ** 2
        k = 6 * (1 + nu) * whole / ((7 + 6 * nu) * whole + (20 + 12 * nu) * m2)
        A, I = math.pi * (r**2 - inner**2), math.pi * (r**4 - inner**4) / 4
        return _homogeneous(A, (k, k), (I, I), 2 * I, E, G, density, (2 * r, 2 * r))

    @staticmethod
    @checked_call
    def i_beam(
        width: float,
        height: float,
        *,
        flange: float,
        web: float,
        E: float,
        G: float,
        density: float,
    ) -> Section:
        """An I of `width` (y) and `height` (z) over all, with the thicknesses `flange` and `web`
        [m]. Thin walls: the web carries the shear along z, the flanges that along y."""
        b, h, f, w, E, G, density = _walls("i_beam", width, height, flange, web, E, G, density)
        inner = h - 2 * f
        A = 2 * b * f + inner * w
        I = ((b * h**3 - (b - w) * inner**3) / 12, (2 * f * b**3 + inner * w**3) / 12)
        J = (2 * b * f**3 + (h - f) * w**3) / 3
        shear = (5 / 6 * 2 * b * f / A, (h - f) * w / A)
        return _homogeneous(A, shear, I, J, E, G, density, (h, b))

    @staticmethod
    @checked_call
    def profile(name: str, *, E: float, G: float, density: float) -> Section:
        """A rolled I section by its name, ``"IPE 200"``, ``"HEA 160"``, with the nominal dimensions
        of EN 10365; its web is along z. Fillets count, but in the shear areas."""
        E, G, density = _sizes("profile", E=E, G=G, density=density)
        own = profile(name)
        A = own.area
        shear = (5 / 6 * 2 * own.width * own.flange / A, (own.height - own.flange) * own.web / A)
        outline = own.height, own.width
        return _homogeneous(A, shear, own.second_moments, own.torsion, E, G, density, outline)

    @staticmethod
    @checked_call
    def channel(
        width: float,
        height: float,
        *,
        flange: float,
        web: float,
        E: float,
        G: float,
        density: float,
    ) -> Section:
        """A channel, its web along z and its flanges toward +y, with `width` and `height` over all
        and the thicknesses `flange` and `web` [m]. Thin walls. The axis is the centroid's; the
        shear centre lies outside of the web, so that shear along z and twist are coupled."""
        b, h, f, w, E, G, density = _walls("channel", width, height, flange, web, E, G, density)
        inner = h - 2 * f
        A = 2 * b * f + inner * w
        centre = (2 * b * f * b / 2 + inner * w * w / 2) / A  # of area, from the back of the web
        Iy = (b * h**3 - (b - w) * inner**3) / 12
        Iz = 2 * (f * b**3 / 12 + b * f * (b / 2 - centre) ** 2)
        Iz += inner * w**3 / 12 + inner * w * (w / 2 - centre) ** 2
        J = (2 * b * f**3 + (h - f) * w**3) / 3
        arm, leg = h - f, b - w / 2  # between middle lines
        e = f * leg**2 * arm**2 / (4 * Iy)  # shear centre behind the web's middle line
        y = w / 2 - e - centre
        GA = (G * 5 / 6 * 2 * b * f, G * arm * w)
        K = np.diag([E * A, *GA, G * J, E * Iy, E * Iz])
        K[2, 3] = K[3, 2] = GA[1] * y  # shear along z at the shear centre: shear z + y twist
        K[3, 3] += GA[1] * y * y
        inertia = density * np.array([Iy + Iz, Iy, Iz])
        return Section(stiffness=K, mass=density * A, inertia=inertia, outline=(h, b))


def rectangle_torsion(width: float, height: float) -> float:
    """The torsion constant J [m^4] of a solid rectangle, by Saint-Venant's series."""
    b, a = sorted((width, height))
    terms = (math.tanh(n * math.pi * a / (2 * b)) / n**5 for n in range(1, 200, 2))
    return a * b**3 * (1 / 3 - 64 * b / (math.pi**5 * a) * math.fsum(terms))


def _sizes(shape: str, **given: Any) -> list[float]:
    wanted = "a positive number of SI units, below 1e60"  # whose fourth power is one, too
    return [
        _numbers.number(
            f"Section.{shape}",
            name,
            value,
            good=lambda x: 0 < x < 1e60,
            wanted=wanted,
            error=ModelError,
        )
        for name, value in given.items()
    ]


def _walls(
    shape: str, width: Any, height: Any, flange: Any, web: Any, E: Any, G: Any, density: Any
) -> list[float]:
    names = {"width": width, "height": height, "flange": flange, "web": web}
    b, h, f, w, *rest = _sizes(shape, **names, E=E, G=G, density=density)
    if 2 * f >= h or w >= b:
        raise ModelError(
            f"Section.{shape}: walls of {f:g} and {w:g} do not fit into {b:g} x {h:g}. Give the "
            "thickness of flange and web, and width and height over all."
        )
    return [b, h, f, w, *rest]


def _cowper(E: float, G: float, a: float, b: float, c: float) -> float:
    """The shear coefficient a (1 + nu) / (b + c nu)."""
    nu = E / (2 * G) - 1
    return a * (1 + nu) / (b + c * nu)


def _homogeneous(
    A: float,
    shear: tuple[float, float],
    I: tuple[float, float],
    J: float,
    E: float,
    G: float,
    density: float,
    outline: tuple[float, float],
) -> Section:
    Iy, Iz = I
    return Section(
        EA=E * A,
        GA=(G * A * shear[0], G * A * shear[1]),
        GJ=G * J,
        EI=(E * Iy, E * Iz),
        mass=density * A,
        inertia=(density * (Iy + Iz), density * Iy, density * Iz),
        outline=outline,
    )
