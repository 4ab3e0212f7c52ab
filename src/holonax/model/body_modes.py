"""Modes of a flexible body: how its mass moves with them, what resists them, where to attach.

The body's coordinates are those of its floating frame. With the amplitudes eta, what is at p at
rest is at p + sum_j phi_j eta_j. The mass is given by points, or by the integrals over it:

    mass, first_moment = sum m p, inertia = sum m (p.p 1 - p p^T)   about the frame's origin
    translation_j = sum m phi_j          rotation_j = sum m p x phi_j
    modal_mass_ij = sum m phi_i . phi_j  rotation_by_mode_ij = sum m phi_i x phi_j
    inertia(eta) = inertia + sum_j inertia_by_mode_j eta_j + sum_ij inertia_by_modes_ij eta_i eta_j
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import listed, shown
from .._numbers import as_array, is_traced, namespace
from .items import ModelError
from .shape_integrals import (
    ComparedArrays,
    Marker,
    ShapeIntegrals,
    as_lists,
    check_shape,
    cross_table,
    kept,
    made_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_SINGULAR = 1e-10  # of the scaled mass matrix: a mode that moves the body as a whole


@dataclass(frozen=True, eq=False, repr=False)
class BodyModes(ComparedArrays):
    """The modes of a flexible body, as a finite-element program has them or as functions evaluated
    at points; for `model.modal_body` and `model.planar_modal_body`.

    **Arguments:**

    - `points` (n, 3), `masses` (n,) and `shapes` (n, 3, k): where the mass is at rest in the body's
      coordinates [m, kg], and the displacement of each point with each of k modes. In the plane
      vectors have two components. Points may be the nodes of a lumped mass matrix, or those of a
      quadrature with weights times density.
    - `turns` (n, 3, k) and `inertias` (n, 3) or (n, 3, 3) [kg m^2], in the plane (n, k) and (n,):
      rotations of the points with each mode and rotary inertias, where points have some.
    - `integrals`: `hx.ShapeIntegrals` in place of points.
    - `frequencies` (k,) [Hz], or `stiffness` (k, k) or (k,) in place of them.
    - `damping` (k,) or a number: damping ratios, in the order of rising frequencies; or a matrix
      (k, k) of the damping itself.
    - `markers`: places to attach to by name, each an `hx.Marker` or the number of a point.

    `BodyModes.from_matrices` makes them from mass and stiffness matrices (Craig-Bampton).
    """

    points: Any = None
    masses: Any = None
    shapes: Any = None
    _: KW_ONLY
    turns: Any = None
    inertias: Any = None
    integrals: Any = None
    frequencies: Any = None
    stiffness: Any = None
    damping: Any = None
    markers: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.integrals, Mapping):
            object.__setattr__(self, "integrals", made_of(ShapeIntegrals, self.integrals))
        for field in fields(self):
            if field.name not in ("integrals", "markers"):
                object.__setattr__(self, field.name, kept("BodyModes", field.name, self))
        self._check_mass()
        self._check_stiffness()
        object.__setattr__(self, "markers", self._checked_markers())

    def __repr__(self) -> str:
        return f"BodyModes({self.count} modes, markers {listed(self.markers, 8) or 'none'})"

    @staticmethod
    def from_matrices(
        mass: Any,
        stiffness: Any,
        nodes: ArrayLike,
        *,
        boundary: Mapping[str, ArrayLike] | None = None,
        count: int = 10,
        frame: int | str | None = None,
        markers: Any = None,
        damping: Any = None,
    ) -> BodyModes:
        """The modes of a part given by its whole mass and stiffness matrices (Craig-Bampton).

        **Arguments:**

        - `mass`, `stiffness`: matrices of the free part, dense or of SciPy's sparse kinds. Each
          node has three displacements, or three displacements and three rotations, one node after
          the other; in the plane two, or two and a rotation.
        - `nodes` (nodes, 3) or (nodes, 2): where they are in the coordinates of the part [m].
        - `boundary`: nodes by name, as ``{"left": 0, "right": 12}``, where joints and forces will
          act: what the part does when one of them is moved at rest is among its modes. They become
          markers. Without any the modes are those of the free part.
        - `count`: how many modes with the boundary held are taken beside (of the free part, how
          many of its modes).
        - `frame`: a node (its number, or its name) that the floating frame sits on, which then does
          not move relative to it. By default the frame follows the part so that the modes have
          no momentum (free modes).
        - `markers`: more nodes by name, to attach to or to look at.
        - `damping`: ratios, as for `BodyModes`.
        """
        from .reduction import reduced

        found = reduced(mass, stiffness, nodes, boundary, count, frame, markers)
        return BodyModes(**found, damping=damping)

    # -- checks --------------------------------------------------------------------------------

    def _check_mass(self) -> None:
        by_points = ("points", "masses", "shapes")
        given = [x for x in (*by_points, "turns", "inertias") if getattr(self, x) is not None]
        if self.integrals is not None:
            if not isinstance(self.integrals, ShapeIntegrals):
                raise ModelError(
                    f"BodyModes: integrals={shown(self.integrals)} are none. Give "
                    "hx.ShapeIntegrals(...)."
                )
            if given:
                raise ModelError(
                    f"BodyModes: {listed(given)} and integrals say the same. Give either the "
                    "points of the mass, or its integrals."
                )
            return
        missing = [x for x in by_points if getattr(self, x) is None]
        if missing:
            raise ModelError(
                f"BodyModes: {listed(missing)} is missing. Give points, masses and shapes, or "
                "integrals=hx.ShapeIntegrals(...)."
            )
        points, shapes = as_array(self.points), as_array(self.shapes)
        if points.ndim != 2 or points.shape[1] not in (2, 3):
            raise ModelError(
                f"BodyModes: points has the shape {points.shape}. Give (points, 3), in the plane "
                "(points, 2)."
            )
        n, d = points.shape
        check_shape("BodyModes", "masses", self.masses, (n,))
        if shapes.ndim != 3 or shapes.shape[:2] != (n, d):
            raise ModelError(
                f"BodyModes: shapes has the shape {shapes.shape}. Give ({n}, {d}, modes), the "
                "displacement of each point with each mode."
            )
        k, wide = shapes.shape[2], d == 3
        if self.turns is not None:
            check_shape("BodyModes", "turns", self.turns, (n, 3, k) if wide else (n, k))
        if self.inertias is not None:
            if not wide or as_array(self.inertias).ndim != 3:
                check_shape("BodyModes", "inertias", self.inertias, (n, 3) if wide else (n,))
            else:
                check_shape("BodyModes", "inertias", self.inertias, (n, 3, 3))
        if not is_traced(self.masses):
            bad = np.flatnonzero(as_array(self.masses) < 0)
            if bad.size:
                raise ModelError(
                    f"BodyModes: the mass of point {bad[0]} is negative, "
                    f"{as_array(self.masses)[bad[0]]:g} kg. Give masses of zero or more."
                )

    def _check_stiffness(self) -> None:
        k = self.count
        if (self.frequencies is None) == (self.stiffness is None):
            state = "missing" if self.stiffness is None else "given twice"
            raise ModelError(
                f"BodyModes: what resists the modes is {state}. Give either frequencies [Hz] or "
                "stiffness."
            )
        if self.frequencies is not None:
            check_shape("BodyModes", "frequencies", self.frequencies, (k,))
            f = as_array(self.frequencies)
            if not is_traced(f) and np.any(f < 0):
                bad = int(np.argmin(f))
                raise ModelError(
                    f"BodyModes: the frequency of mode {bad} is negative, {f[bad]:g} Hz."
                )
            m = self.inertia["modal_mass"]
            if not is_traced(m):
                size = np.sqrt(np.abs(np.diagonal(m)))
                off = np.abs(m - np.diag(np.diagonal(m))) / np.outer(size, size).clip(1e-300)
                if np.max(off, initial=0.0) > 1e-6:
                    i, j = np.unravel_index(np.argmax(off), off.shape)
                    raise ModelError(
                        f"BodyModes: modes {i} and {j} are not orthogonal in the mass (by "
                        f"{off[i, j]:.2g}), so that frequencies do not say what resists them. Give "
                        "stiffness, the matrix of the modes."
                    )
            return
        if as_array(self.stiffness).ndim == 1:
            check_shape("BodyModes", "stiffness", self.stiffness, (k,))
        else:
            check_shape("BodyModes", "stiffness", self.stiffness, (k, k))
        K = self.stiffness_matrix()
        if is_traced(K) or not k:
            return
        off = np.abs(K - K.T)
        if np.max(off) > 1e-6 * np.max(np.abs(K)):
            i, j = np.unravel_index(np.argmax(off), off.shape)
            raise ModelError(
                f"BodyModes: stiffness is not symmetric: {K[i, j]:g} for modes {i} and {j}, "
                f"{K[j, i]:g} for {j} and {i}."
            )
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        if values[0] < -1e-9 * np.max(np.abs(values)):
            mode = int(np.argmax(np.abs(vectors[:, 0])))
            raise ModelError(
                f"BodyModes: stiffness has the negative eigenvalue {values[0]:g}, most of it in "
                f"mode {mode}. A deformation cannot set energy free."
            )

    def _checked_markers(self) -> dict[str, Marker]:
        given = {} if self.markers is None else self.markers
        if not isinstance(given, Mapping) or not all(isinstance(x, str) and x for x in given):
            raise ModelError(
                f"BodyModes: markers={shown(given)} is not a dictionary. Give hx.Marker(...) or "
                "the number of a point by name, as in {'tip': 12}."
            )
        out = {}
        for name, marker in given.items():
            if isinstance(marker, Mapping):
                marker = made_of(Marker, marker)
            if isinstance(marker, Marker):
                out[name] = self._fitting(name, marker)
            else:
                out[name] = self._of_point(name, marker)
        return out

    def _fitting(self, name: str, marker: Marker) -> Marker:
        d, k = self.dimension, self.count
        owner = f"BodyModes: marker {name!r}"
        check_shape(owner, "at", marker.at, (d,))
        check_shape(owner, "shape", marker.shape, (d, k))
        if marker.turn is not None:
            check_shape(owner, "turn", marker.turn, (3, k) if d == 3 else (k,))
        return marker

    def _of_point(self, name: str, number: Any) -> Marker:
        points = None if self.points is None else as_array(self.points)
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if points is None or not whole or not 0 <= number < len(points):
            have = "there are no points" if points is None else f"there are {len(points)} points"
            raise ModelError(
                f"BodyModes: marker {name!r} is {shown(number)}, and {have}. Give hx.Marker(at, "
                "shape) or the number of a point, counted from 0."
            )
        turn = None if self.turns is None else as_array(self.turns)[number]
        return Marker(points[number], as_array(self.shapes)[number], turn)

    # -- what follows ----------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """2 in the plane, 3 in space."""
        if self.integrals is not None:
            return self.integrals.dimension
        return as_array(self.points).shape[1]

    @property
    def count(self) -> int:
        """How many modes there are."""
        return self.integrals.modes if self.integrals is not None else np.shape(self.shapes)[2]

    @cached_property
    def inertia(self) -> dict[str, Any]:
        """The integrals as arrays; see `ShapeIntegrals.arrays`."""
        if self.integrals is not None:
            return self.integrals.arrays()
        m, p, phi = (as_array(x) for x in (self.masses, self.points, self.shapes))
        xp = namespace(m, p, phi)
        n, d = p.shape
        k, r = phi.shape[2], 3 if d == 3 else 1
        outer = xp.einsum("n,na,nb->ab", m, p, p)
        first = xp.einsum("n,na,nbk->kab", m, p, phi)
        both = xp.einsum("n,nai,nbj->ijab", m, phi, phi)
        cross = cross_table(d)  # (a x b)_c = cross[c, a, b] a_a b_b
        out = {
            "mass": xp.sum(m),
            "first_moment": m @ p,
            "inertia": _moment(outer),
            "translation": xp.einsum("n,nak->ak", m, phi),
            "rotation": xp.einsum("cab,kab->ck", cross, first),
            "modal_mass": xp.einsum("ijaa->ij", both),
            "inertia_by_mode": _moment(first + xp.swapaxes(first, 1, 2)),
            "inertia_by_modes": _moment((both + xp.swapaxes(both, 2, 3)) / 2),
            "rotation_by_mode": xp.einsum("cab,ijab->icj", cross, both),
        }
        if self.inertias is not None:
            J = as_array(self.inertias)
            J = J[:, None, None] if d == 2 else J
            J = J[:, :, None] * np.eye(3) if J.ndim == 2 else J
            out["inertia"] = out["inertia"] + xp.sum(J, axis=0)
            if self.turns is not None:
                turns = as_array(self.turns).reshape(n, r, k)
                out["rotation"] = out["rotation"] + xp.einsum("nab,nbk->ak", J, turns)
                spun = xp.einsum("nai,nab,nbj->ij", turns, J, turns)
                out["modal_mass"] = out["modal_mass"] + spun
        return out

    def stiffness_matrix(self) -> Any:
        """The stiffness (k, k)."""
        if self.frequencies is not None:
            f, m = as_array(self.frequencies), self.inertia["modal_mass"]
            xp = namespace(f, m)
            return xp.diag((2 * np.pi * f) ** 2 * xp.diagonal(m))
        K = as_array(self.stiffness)
        return namespace(K).diag(K) if K.ndim == 1 else K

    def damping_matrix(self) -> Any:
        """The damping (k, k), None without one.

        Ratios z belong to the modes x of the pair (K, m): D = m X diag(2 z w) X^T m.
        """
        if self.damping is None or not self.count:
            return None
        given, k = as_array(self.damping), self.count
        if given.ndim == 2:
            check_shape("BodyModes", "damping", given, (k, k))
            return given
        if given.ndim == 1:
            check_shape("BodyModes", "damping", given, (k,))
        if not is_traced(given) and np.any(given < 0):
            mode = int(np.argmin(np.broadcast_to(given, (k,))))
            raise ModelError(f"BodyModes: the damping ratio of mode {mode} is negative.")
        m, K = self.inertia["modal_mass"], self.stiffness_matrix()
        xp = namespace(given, m, K)
        root = xp.linalg.cholesky((m + m.T) / 2)
        half = xp.linalg.solve(root, K)
        scaled = xp.linalg.solve(root, half.T)
        values, vectors = xp.linalg.eigh((scaled + scaled.T) / 2)
        rates = 2 * given * xp.sqrt(xp.maximum(values, 0.0))
        spread = root @ vectors
        return (spread * rates) @ spread.T

    def check(self, owner: str) -> None:
        """Refuse a mass matrix that is singular: a mode that moves the body as a whole."""
        x = self.inertia
        if is_traced(*x.values()):
            return
        if not x["mass"] > 0:
            raise ModelError(f"{owner}: its mass is {float(x['mass']):g} kg. Give positive masses.")
        d, k = self.dimension, self.count
        M = _rigid_block(x)
        for mode in range(k):
            if not x["modal_mass"][mode, mode] > 0:
                raise ModelError(
                    f"{owner}: mode {mode} moves no mass (its modal mass is "
                    f"{x['modal_mass'][mode, mode]:g}). Leave it out, or give its shape."
                )
        size = np.sqrt(np.abs(np.diagonal(M)))
        if not np.all(size > 0):
            raise ModelError(
                f"{owner}: its inertia about {'xyz'[int(np.argmin(size[d:]))]} is zero. Give "
                "points that are not on one line, or inertias."
            )
        values, vectors = np.linalg.eigh(M / np.outer(size, size))
        if values[0] > _SINGULAR:
            self.damping_matrix()  # refuses what is none
            return
        if k and np.max(np.abs(vectors[len(M) - k :, 0])) > 1e-3:
            mode = int(np.argmax(np.abs(vectors[len(M) - k :, 0])))
            raise ModelError(
                f"{owner}: mode {mode} moves the body as a whole, which its frame does already (or "
                "it is a sum of other modes). Leave out rigid-body modes, or hold the part where "
                "its frame is."
            )
        raise ModelError(
            f"{owner}: its inertia is singular. Give points that are not on one line, or inertias."
        )

    # -- as a record has it ------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """Its physical numbers by name."""
        own = {x: getattr(self, x) for x in _NUMBERS}
        if self.integrals is not None:
            parts = fields(self.integrals)
            own |= {f"integrals.{x.name}": getattr(self.integrals, x.name) for x in parts}
        for name, marker in self.markers.items():
            parts = fields(marker)
            own |= {f"markers.{name}.{x.name}": getattr(marker, x.name) for x in parts}
        return {x: y for x, y in own.items() if y is not None and np.size(y)}

    def to_dict(self) -> dict[str, Any]:
        """What it was given, as lists."""
        out: dict[str, Any] = {x: getattr(self, x) for x in _NUMBERS}
        if self.integrals is not None:
            out["integrals"] = as_lists(self.integrals)
        if self.markers:
            out["markers"] = {name: as_lists(marker) for name, marker in self.markers.items()}
        keep = ((x, y) for x, y in out.items() if y is not None)
        return {x: y if isinstance(y, dict) else np.asarray(y).tolist() for x, y in keep}

    @staticmethod
    def from_dict(owner: str, said: object) -> BodyModes:
        """From what `to_dict` made."""
        known = [field.name for field in fields(BodyModes)]
        if not isinstance(said, Mapping) or not all(x in known for x in said):
            raise ModelError(
                f"{owner}: modes={shown(said)} are none. Give hx.BodyModes(...), or a dictionary "
                f"with {listed(known, 20)}."
            )
        return BodyModes(**said)

    def changed(self, owner: str, name: str, value: object) -> BodyModes:
        """With another number, by its name in `numbers`."""
        if name not in self.numbers():
            raise ModelError(
                f"{owner}: its modes have no {name!r}. What they have is "
                f"{listed(self.numbers(), 20)}."
            )
        first, _, rest = name.partition(".")
        if first == "integrals":
            return replace(self, integrals=replace(self.integrals, **{rest: value}))
        if first == "markers":
            which, _, field = rest.rpartition(".")
            changed = replace(self.markers[which], **{field: value})
            return replace(self, markers={**self.markers, which: changed})
        return replace(self, **{name: value})


_NUMBERS = (
    "points",
    "masses",
    "shapes",
    "turns",
    "inertias",
    "frequencies",
    "stiffness",
    "damping",
)


def _moment(outer: np.ndarray) -> np.ndarray:
    """Moments of inertia (..., r, r) of second moments of mass (..., d, d)."""
    xp = namespace(outer)
    trace = xp.trace(outer, axis1=-2, axis2=-1)[..., None, None]
    return trace if outer.shape[-1] == 2 else trace * np.eye(3) - outer


def _rigid_block(x: dict[str, Any]) -> np.ndarray:
    """The mass matrix at rest, in the body's axes."""
    d, c = len(x["first_moment"]), x["first_moment"]
    if d == 2:
        C = np.array([[-c[1]], [c[0]]])
    else:
        C = np.array([[0, c[2], -c[1]], [-c[2], 0, c[0]], [c[1], -c[0], 0]])
    upper = [x["mass"] * np.eye(d), C, x["translation"]]
    middle = [C.T, x["inertia"], x["rotation"]]
    return np.block([upper, middle, [x["translation"].T, x["rotation"].T, x["modal_mass"]]])
