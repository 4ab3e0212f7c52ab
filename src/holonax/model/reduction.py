"""Modes from the matrices of a finite-element program: the reduction of Craig and Bampton (1968).

With the boundary degrees of freedom b and the inner ones i, deformations are

    u_b = x_b,   u_i = -K_ii^-1 K_ib x_b + Phi x_m,   K_ii Phi = M_ii Phi w^2:

the inside follows the boundary as at rest, and vibrates beside it as if the boundary were held. The
modes are the eigenvectors within these deformations, less those that move the part as a whole,
which is left to its floating frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _numbers
from .._messages import listed, shown
from .items import ModelError
from .shape_integrals import Marker, ShapeIntegrals, cross_table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_OWNER = "BodyModes.from_matrices"
_RIGID = 1e-6  # of the next eigenvalue: a motion of the whole
_SMALL = 600  # inner degrees of freedom whose eigenvalues are found by dense matrices
_SHIFT = 1e-6  # of the size of K by that of M: makes the stiffness of a free part definite


def reduced(
    mass: Any,
    stiffness: Any,
    nodes: ArrayLike,
    boundary: Mapping[str, ArrayLike] | None,
    count: Any,
    frame: int | str | None,
    markers: Any,
) -> dict[str, Any]:
    """What `BodyModes` is given: integrals, stiffness and markers."""
    p = _numbers.array(_OWNER, "nodes", nodes, (None, None), error=ModelError)
    M, K = _matrix("mass", mass), _matrix("stiffness", stiffness)
    each = _dofs_per_node(M, K, p)
    n, d = p.shape
    places = {name: _node(name, x, n) for name, x in _named("markers", markers).items()}
    held = _boundary(boundary, n, places)
    count = _numbers.count(_OWNER, "count", count, least=0, error=ModelError)
    clamped = np.zeros(0, int)
    if frame is not None:
        at = _node("frame", held.get(frame, frame) if isinstance(frame, str) else frame, n)
        if each == d:
            raise ModelError(
                f"{_OWNER}: frame={shown(frame)} is a node without rotations, so that it does not "
                "say how the floating frame is turned. Leave frame out."
            )
        clamped, p = at * each + np.arange(each), p - p[at]
    own = np.array([x * each + k for x in held.values() for k in range(each)], int)
    own = np.setdiff1d(own, clamped)
    rigid = 0 if clamped.size else (3 if d == 2 else 6)
    T = _basis(M, K, own, clamped, count, rigid)
    values, T = _eigenmodes(M, K, T, rigid)
    made = {name: _marker(T, p, each, x) for name, x in {**held, **places}.items()}
    return {"integrals": _integrals(M, p, each, T), "stiffness": values, "markers": made}


# -- what was given --------------------------------------------------------------------------------


def _matrix(name: str, given: Any) -> Any:
    """A symmetric matrix, dense or sparse."""
    from scipy import sparse

    if sparse.issparse(given):
        found: Any = given.tocsr().astype(float)
        finite = bool(np.all(np.isfinite(found.data)))
    else:
        found, finite = _numbers.array(_OWNER, name, given, error=ModelError), True
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not finite or not found.shape[0]:
        raise ModelError(
            f"{_OWNER}: {name} has the shape {found.shape}. Give a square matrix of finite numbers."
        )
    skew = abs(found - found.T).max()
    if skew > 1e-6 * abs(found).max():
        raise ModelError(f"{_OWNER}: {name} is not symmetric (by {skew:.3g}).")
    return found


def _dofs_per_node(M: Any, K: Any, p: np.ndarray) -> int:
    n, d = p.shape
    if d not in (2, 3) or not n:
        raise ModelError(
            f"{_OWNER}: nodes has the shape {p.shape}. Give (nodes, 3), in the plane (nodes, 2)."
        )
    each, rest = divmod(M.shape[0], n)
    able = (2, 3) if d == 2 else (3, 6)
    if rest or each not in able or K.shape != M.shape:
        raise ModelError(
            f"{_OWNER}: matrices of {M.shape[0]} and {K.shape[0]} rows do not go with {n} nodes. "
            f"Each node has {able[0]} displacements, or {able[1]} displacements and rotations, one "
            "node after the other."
        )
    return each


def _named(what: str, given: object) -> Mapping[str, Any]:
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(x, str) and x for x in given):
        raise ModelError(
            f"{_OWNER}: {what}={shown(given)} is not a dictionary. Give numbers of nodes by name, "
            "as in {'tip': 12}."
        )
    return given


def _node(what: str, x: Any, n: int) -> int:
    whole = isinstance(x, int | np.integer) and not isinstance(x, bool)
    if not whole or not 0 <= x < n:
        raise ModelError(
            f"{_OWNER}: {what}={shown(x)} is not a node. Give a number from 0 to {n - 1}."
        )
    return int(x)


def _boundary(given: object, n: int, places: Mapping[str, int]) -> dict[str, int]:
    held = {name: _node(name, x, n) for name, x in _named("boundary", given).items()}
    twice = [x for x in held if x in places]
    if twice:
        raise ModelError(f"{_OWNER}: {twice[0]!r} is in boundary and in markers. Leave one out.")
    if len(set(held.values())) < len(held):
        raise ModelError(
            f"{_OWNER}: {listed(held)} of the boundary are not different nodes. Name each once, "
            "and others with markers=."
        )
    return held


# -- the reduction ---------------------------------------------------------------------------------


def _dense(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.toarray()


def _basis(
    M: Any, K: Any, b: np.ndarray, clamped: np.ndarray, count: int, rigid: int
) -> np.ndarray:
    """The deformations of Craig and Bampton as columns."""
    size = M.shape[0]
    i = np.setdiff1d(np.arange(size), np.concatenate([b, clamped]))
    free = not b.size and not clamped.size
    count = count + rigid if free else count
    if count > i.size:
        raise ModelError(
            f"{_OWNER}: count={count - rigid * free} is more than the {i.size - rigid * free} modes"
            " that the part has with its boundary held."
        )
    T = np.zeros((size, b.size + count))
    T[b, np.arange(b.size)] = 1.0
    part = lambda A, r, c: A[r][:, c]  # noqa: E731
    if i.size and b.size:
        T[i, : b.size] = -_solved(part(K, i, i), _dense(part(K, i, b)))
    if count:
        T[i, b.size :] = _lowest(part(M, i, i), part(K, i, i), count, free)[1]
    return T


def _solved(K: Any, right: np.ndarray) -> np.ndarray:
    from scipy import linalg, sparse
    from scipy.sparse import linalg as sparse_linalg

    try:
        if sparse.issparse(K):
            found = np.asarray(sparse_linalg.splu(K.tocsc()).solve(right))
        else:
            found = linalg.cho_solve(linalg.cho_factor(K), right)
    except (np.linalg.LinAlgError, RuntimeError):
        found = np.full(right.shape, np.nan)
    if not np.all(np.isfinite(found)):
        raise ModelError(
            f"{_OWNER}: the stiffness with the boundary held is singular: the part can still move. "
            "Give boundary nodes that hold it, and stiffness to every degree of freedom."
        )
    return found


def _lowest(M: Any, K: Any, count: int, free: bool) -> tuple[np.ndarray, np.ndarray]:
    """The lowest eigenvalues of K x = w^2 M x, and x, where M may be singular."""
    from scipy import linalg, sparse
    from scipy.sparse import linalg as sparse_linalg

    shift = _SHIFT * abs(K).max() / abs(M).max() if free else 0.0
    n = M.shape[0]
    try:
        if n > _SMALL and sparse.issparse(K) and count < n // 2:
            values, x = sparse_linalg.eigsh(K.tocsc(), count, M.tocsc(), sigma=-shift)
            order = np.argsort(values)
            return values[order], x[:, order]
        A, B = _dense(M), _dense(K) + shift * _dense(M)
        inverse, x = linalg.eigh(
            (A + A.T) / 2, (B + B.T) / 2, subset_by_index=[n - count, n - 1]
        )  # 1 / (w^2 + shift), rising
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise ModelError(
            f"{_OWNER}: the stiffness is not positive definite where the part is held ({error}). "
            "See that every degree of freedom has a stiffness, and that the matrices are in the "
            "order mass, stiffness."
        ) from None
    inverse, x = inverse[::-1], x[:, ::-1]
    lightest = inverse < 1e-14 * inverse[0]
    if np.any(lightest):
        raise ModelError(
            f"{_OWNER}: {int(np.sum(lightest))} of the {count} deformations asked for move no "
            "mass. Ask for fewer modes, or give the nodes of the boundary rotary inertia."
        )
    return 1 / inverse - shift, x / np.sqrt(inverse)


def _eigenmodes(M: Any, K: Any, T: np.ndarray, rigid: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors (of unit modal mass) within deformations, without those that
    move the whole."""
    if T.shape[1] < rigid:
        raise ModelError(
            f"{_OWNER}: a boundary of {T.shape[1]} degrees of freedom does not let the part move "
            "as a whole. Give more boundary nodes, or frame= (a node)."
        )
    if not T.shape[1]:
        return np.zeros(0), T
    k, m = T.T @ (K @ T), T.T @ (M @ T)
    values, x = _lowest(m, k, T.shape[1], bool(rigid))
    if rigid and len(values) > rigid and values[rigid - 1] > _RIGID * values[rigid]:
        raise ModelError(
            f"{_OWNER}: the stiffness resists motions of the whole part (eigenvalue {rigid - 1} is "
            f"{values[rigid - 1]:.3g}, the next one {values[rigid]:.3g} 1/s^2). Give the stiffness "
            "of the free part, without supports."
        )
    T = T @ x[:, rigid:]
    return np.maximum(values[rigid:], 0.0), T / np.sqrt(np.sum(T * (M @ T), axis=0))


def _marker(T: np.ndarray, p: np.ndarray, each: int, node: int) -> Marker:
    d, rows = p.shape[1], T[node * each : (node + 1) * each]
    turn = None
    if each > d:
        turn = rows[d:] if d == 3 else rows[2]
    return Marker(p[node], rows[:d], turn)


def _integrals(M: Any, p: np.ndarray, each: int, T: np.ndarray) -> ShapeIntegrals:
    """Those of the whole mass matrix: velocities of the nodes are R(u) (v, w) + T eta'."""
    n, d = p.shape
    r, k = 3 if d == 3 else 1, T.shape[1]

    def spun(u: np.ndarray) -> np.ndarray:
        """e_c x u of all nodes, (dofs, r)."""
        out = np.zeros((n, each, r))
        # (w x u)_a = cross[a, c, b] w_c u_b
        out[:, :d] = np.einsum("cab,nb->nac", -cross_table(d), u)
        return out.reshape(n * each, r)

    move, turn = np.zeros((n, each, d)), spun(p).reshape(n, each, r)
    move[:, :d] = np.eye(d)
    if each > d:
        turn[:, d:] = np.eye(r)
    move, turn = move.reshape(-1, d), turn.reshape(-1, r)
    shapes = T.reshape(n, each, k)[:, :d]
    bent = np.stack([spun(shapes[:, :, j]) for j in range(k)]) if k else np.zeros((0, n * each, r))
    MT, Mt = M @ T, M @ turn
    Mbent = np.stack([M @ x for x in bent]) if k else bent
    first = np.einsum("da,jdb->jab", turn, Mbent)
    across = np.einsum("ida,dj->iaj", bent, MT)
    both = np.einsum("ida,jdb->ijab", bent, Mbent)
    total = move.T @ (M @ move)
    centre = move.T @ Mt  # C with C w = w x c
    if d == 2:
        c = np.array([centre[1, 0], -centre[0, 0]])
    else:
        c = np.array([centre[1, 2], centre[2, 0], centre[0, 1]])
    plane = (lambda x: x[..., 0, 0]) if d == 2 else (lambda x: x)
    rotation = turn.T @ MT
    turned = (across - np.swapaxes(across, 0, 2)) / 2
    return ShapeIntegrals(
        np.trace(total) / d,
        c,
        plane(turn.T @ Mt),
        translation=move.T @ MT,
        rotation=rotation[0] if d == 2 else rotation,
        modal_mass=T.T @ MT,
        inertia_by_mode=plane(first + np.swapaxes(first, 1, 2)),
        inertia_by_modes=plane((both + np.swapaxes(both, 2, 3)) / 2),
        rotation_by_mode=turned[:, 0] if d == 2 else turned,
    )
