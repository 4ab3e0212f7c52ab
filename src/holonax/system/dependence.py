"""What the force of an element depends on, read off its traced program.

Newton's matrix has a block for each pair of nodes where the force on one depends on the motion of
the other. The program of the forces is taken apart into scalars, and what each component is
computed from is followed back to the frames; both sides of a branch count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import is_traced
from ..compiler import dependence
from ..compiler.fingerprint import Unknown, fingerprint, of_installation
from ..compiler.store import read, write
from .elements import Group, Indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

    from .elements import Element
    from .frames import Frame, PlanarFrame

# For each node, and each component of the force on it: the nodes whose motion it depends on, with
# "moved" for where a body is and how fast it moves, "turned" for how it is turned and turns.
Dependence = list[list[set[tuple[int, str]]]]

_known: dict[Any, Dependence] = {}


def force_dependence(group: Group, frame: type) -> Dependence:
    """What the forces of a group's elements depend on; see `Dependence`."""
    one = jax.tree.map(
        lambda x: np.ones((1, *x.shape[1:])) if is_traced(x) else np.asarray(x)[:1], group.element
    )
    key = (jax.tree.structure(one), frame, len(group.nodes), group.rows)
    if key not in _known:
        _known[key] = _kept(one, frame, len(group.nodes), group.rows)
    return _known[key]


def _kept(element: Element, frame: type, nodes: int, rows: int) -> Dependence:
    """From disk, where an earlier process has found it."""
    try:
        name = fingerprint(
            of_installation(), "dependence", jax.tree.structure(element), frame, nodes, rows
        )
    except Unknown:
        return _found(element, frame, nodes, rows)
    said = read(name)
    if said is not None:
        return [[{(k, how) for k, how in x} for x in node] for node in said[0]["dependence"]]
    found = _found(element, frame, nodes, rows)
    plain = [[sorted(x) for x in node] for node in found]
    write(name, {"dependence": plain}, b"")
    return found


def _found(element: Element, frame: type, nodes: int, rows: int) -> Dependence:
    single = Group(element, (Indices.of([0]),) * nodes, ("",), rows)

    def forces(frames: Sequence[Frame | PlanarFrame], t: Array, lam: Sequence[Array]) -> Any:
        return [[jnp.reshape(x, ()) for x in part] for part in single.forces(frames, t, lam)]

    frames = [frame.ground() for _ in range(nodes)]
    paths, _ = jax.tree_util.tree_flatten_with_path(frames)
    labels: list[Any] = [
        (path[0].idx, "moved" if path[1].name in ("r", "v") else "turned") for path, _ in paths
    ]
    lam = [np.ones((1,))] * rows
    sets = dependence(forces, frames, np.zeros(()), lam)
    labels += [None] * (1 + rows)
    parts = iter(sets)
    everything = {label for label in labels if label is not None}
    out: Dependence = []
    for _ in range(nodes):
        components = [next(parts) for _ in range(frame.dof)]
        out.append(
            [
                everything if x is None else {labels[k] for k in x if labels[k] is not None}
                for x in components
            ]
        )
    return out
