"""Ordinary bodies told from bodies with modes, for solvers that are linear in the former.

Ordinary bodies with the joints among themselves are a `BodySet` like any other, to which the frames
of bodies with modes (their own and those of their markers) are ground. The rest is a border: the
coordinates of bodies with modes, and the multipliers of the joints at them. Without these joints
the rows that are left are independent still, so that the larger part can always be solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .._modules import Module
from .assembly import BodySet
from .elements import Group, Indices, take
from .tangent import TangentPlan, couplings_of
from .tangent_blocks import Blocks, Coupling

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .base import Array


class ModalGraph(Module):
    """`rigid` are the `ordinary` of all frames. Each of its groups, joints and then forces (the
    joints at bodies with modes are among these, for their geometric stiffness), is made of some
    elements of a group of all frames, its source. `far` and `near` are the constraint rows of
    joints among ordinary bodies and of the others, `held` counts the holonomic ones of all.
    `coupled` says whether forces on ordinary bodies depend on the motion of bodies with modes."""

    rigid: BodySet
    sources: tuple[tuple[int, Indices], ...] = eqx.field(static=True)
    ordinary: Indices = eqx.field(static=True)
    far: Indices = eqx.field(static=True)
    near: Indices = eqx.field(static=True)
    held: int = eqx.field(static=True)
    coupled: bool = eqx.field(static=True)

    @staticmethod
    def of(every: BodySet, flexible: set[int], solver: str) -> tuple[BodySet, ModalGraph]:
        """For all frames, of which `flexible` are those of bodies with modes; with the frames told
        which of them are coupled."""
        couplings = couplings_of(every.joints, every.forces, every.frame)
        plan = TangentPlan(None, None, couplings, alone=False, split=False, few=False)
        ordinary = Indices.of(i for i in range(every.n) if i not in flexible)
        number = {i + 1: k + 1 for k, i in enumerate(ordinary)}
        joints, others = [], []  # (source, its elements)
        far, near, at = [], [], 0
        for k, group in enumerate(every.joints):
            ours = [any(t[e] and t[e] not in number for t in group.nodes) for e in range(group.n)]
            for out, rows, wanted in ((joints, far, False), (others, near, True)):
                part = Indices.of(e for e in range(group.n) if ours[e] is wanted)
                rows += [at + r * group.n + e for r in range(group.rows) for e in part]
                if part:
                    out.append((k, part))
            at += group.rows * group.n
        first = len(every.joints)
        others += [(first + k, Indices.of(range(g.n))) for k, g in enumerate(every.forces)]
        groups = [*every.joints, *every.forces]
        rigid = BodySet.of(
            mass=take(every.mass, ordinary),
            inertia=take(every.inertia, ordinary),
            gravity=every.gravity,
            joints=[_part(groups[k], elements, number) for k, elements in joints],
            forces=[_part(groups[k], elements, number) for k, elements in others],
            names=[every.names[i] for i in ordinary],
            frame=every.frame,
            solver=solver,
        )
        graph = ModalGraph(
            rigid,
            (*joints, *others),
            ordinary,
            Indices.of(far),
            Indices.of(near),
            sum(g.rows * g.n for g in every.groups("holonomic")),
            any(_reaches(groups[k], i, j, number) for k, i, j in couplings),
        )
        return replace(every, tangent=plan), graph

    def sturdier(self) -> ModalGraph | None:
        """With a slower and safer solver of ordinary bodies; None if there is none."""
        rigid = self.rigid.sturdier()
        return None if rigid is None else replace(self, rigid=rigid)

    def restricted(self, blocks: Blocks, couplings: Sequence[Coupling]) -> Blocks:
        """The blocks of ordinary bodies, of those of all frames with these couplings."""
        rigid, sources = self.rigid, self.sources
        where = {coupling: i for i, coupling in enumerate(couplings)}
        assert rigid.tangent is not None
        pairs = []
        for k, i, j in rigid.tangent.couplings:
            source, elements = sources[k]
            pair = blocks.couplings[where[Coupling(source, i, j)]]
            pairs.append(tuple(_taken(x, elements) for x in pair))
        with_ground = Indices.of([0, *(i + 1 for i in self.ordinary)])
        return Blocks(
            take(blocks.inertia, self.ordinary),
            _taken(blocks.stiffness, self.ordinary),
            pairs,
            take(blocks.spin, with_ground),
            take(blocks.back, with_ground),
            *(self.joint_blocks(x) for x in blocks[5:]),
        )

    def joint_blocks(self, local: Sequence[list[Array] | None]) -> list[Any]:
        """Of blocks of all joints, those of the joints among ordinary bodies."""
        own = self.sources[: len(self.rigid.joints)]
        return [_taken(local[k], elements) for k, elements in own]

    def holonomic(self, rows: Indices) -> Indices:
        """Those of `far` or `near` that are of position level."""
        return Indices.of(x for x in rows if x < self.held)


def _taken(x: PyTree, elements: Indices) -> PyTree:
    return None if x is None else take(x, elements)


def _part(group: Group, elements: Indices, number: dict[int, int]) -> Group:
    """Some elements of a group, with the frames that are not numbered for ground."""
    index = elements.array()
    nodes = tuple(Indices.of(number.get(table[e], 0) for e in elements) for table in group.nodes)
    element = jax.tree.map(lambda x: x[index], group.element)
    return Group(element, nodes, tuple(group.names[e] for e in elements), group.rows)


def _reaches(group: Group, row: int, column: int, number: dict[int, int]) -> bool:
    """Whether an ordinary body at node `row` feels one with modes at node `column`."""
    pairs = zip(group.nodes[row], group.nodes[column], strict=True)
    return any(i in number and j and j not in number for i, j in pairs)


def inverse(table: Indices) -> Indices:
    """Where each entry of a permutation is."""
    return Indices.of(np.argsort(table.array()))
