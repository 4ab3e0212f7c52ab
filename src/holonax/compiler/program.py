"""A jaxpr as a program in LLVM's language: taken apart, and written down."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import algebra, machine, moving, primitives, survey  # noqa: F401  rules register
from .arrays import SMALL, Stored
from .executable import Layout
from .fusion import fuse
from .known_parts import use_known
from .lanes import LaneEmitter
from .llvm import Emitter
from .lowering import MOST
from .lowering import Lowering as Lowering
from .machine import object_code as object_code
from .operations import Block, Buffer, Node, Unsupported, kind_of
from .order import arrange
from .strip_writer import StripEmitter
from .threads import ThreadEmitter

if TYPE_CHECKING:
    from jax.extend import core as jax_core

SHORT = 4000  # operations up to which a program is
LONG = 60_000  # operations from which on loops are not written out for a GPU: its compiler gives up
AHEAD = 20_000  # operations up to which the first round of a loop is written before it
MUCH = 2000  # numbers from which on results are written as soon as they are known

Plain = tuple[tuple[int, float], ...]  # numbers of an array that are known, by place


class Lowered(NamedTuple):
    """A program in scalar operations: its arrays in memory, and those that go in and come out."""

    main: Block
    buffers: list[Buffer]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...], bool], ...]
    operations: int


def written(closed: jax_core.ClosedJaxpr, once: bool = False) -> tuple[str, Layout]:
    """A closed jaxpr in LLVM's language: a program of wide arrays in loops over them, any other in
    scalars and rows, fewer of these if it runs `once`. Raises `Unsupported` for what is left to
    XLA."""
    low = Lowering()
    has_rows = low.use_rows(closed.jaxpr, once)
    wide = not has_rows and low.survey.is_wide(closed.jaxpr)
    made = lowered(closed, Lowering(in_loops=True) if wide else low)
    sizes = len(made.inputs), len(made.outputs)
    emitter = (
        StripEmitter(made.main, made.buffers, *sizes) if wide else Emitter(made.buffers, *sizes)
    )
    emitter.block(made.main)
    text, rows = emitter.text(), bool(low.rows.widths)
    return text, Layout(made.inputs, made.outputs, emitter.scratch, made.operations, wide, rows)


def written_in_lanes(
    closed: Any, batched: list[int], lanes: int | None = None
) -> tuple[str, Layout, int]:
    """A closed jaxpr of one run in LLVM's language, for many runs at a time, and how many that is:
    `lanes`, by default what suits the processor. `batched` are the numbers of the arguments that
    each run has its own of.

    Vectors are many registers, which loops have to hand on: more of these are written out. Short
    programs take two vectors for each number, so that one is computed while another waits.
    """
    made = lowered(closed, _apart(4 * survey.UNROLLED, AHEAD))
    lanes = lanes or machine.host_lanes() * (2 if made.operations <= SHORT else 1)
    sizes = len(made.inputs), len(made.outputs)
    emitter = LaneEmitter(made.main, made.buffers, *sizes, batched, lanes)
    layout = Layout(made.inputs, made.outputs, emitter.scratch, made.operations)
    return emitter.text(), layout, lanes


def written_in_threads(
    closed: Any, batched: list[int], built_in: Sequence[Plain] = ()
) -> tuple[str, Layout]:
    """A closed jaxpr of one run in LLVM's language, for a GPU with a thread for each run. As in
    lanes, more loops are written out, unless the program is long; operations are in an order of few
    numbers at a time. Of the first arguments, the numbers of `built_in` are known."""
    made = None
    with contextlib.suppress(Unsupported):  # it may be too long
        made = lowered(closed, _apart(4 * survey.UNROLLED, counted=True), built_in)
    if made is None or made.operations > LONG:
        made = lowered(closed, _apart(), built_in)
    arrange(made.main)
    sizes = len(made.inputs), len(made.outputs)
    emitter = ThreadEmitter(made.main, made.buffers, *sizes, batched)
    return emitter.text(), Layout(made.inputs, made.outputs, 0, made.operations)


def _apart(unrolled: int | None = None, ahead: int = 0, counted: bool = False) -> Lowering:
    """For programs of which many run side by side, which call no library."""
    low = Lowering(unrolled, counted=counted)
    low.libraries, low.ahead = False, ahead
    low.a.zeroed = sys.maxsize  # there filling takes as long, and what is not zero is written twice
    return low


def plain(x: Any) -> Plain:
    """Zeros and ones of an array, by their places in it: what these are multiplied with or added to
    is less work, and they tend to stay what they are."""
    flat = np.ravel(x)
    if flat.size > SMALL or flat.dtype != float:
        return ()
    return tuple((k, value) for k, value in enumerate(flat.tolist()) if value in (0, 1, -1))


def lowered(closed: jax_core.ClosedJaxpr, low: Lowering, built_in: Sequence[Plain] = ()) -> Lowered:
    """A closed jaxpr in scalar operations. Raises `Unsupported` for what there is no rule for."""
    jaxpr = closed.jaxpr
    if low.survey.weight(jaxpr) > 20 * MOST:
        raise Unsupported("many operations")
    inputs, args = [], []
    for k, var in enumerate(jaxpr.invars):
        kind, size = kind_of(var.aval.dtype), math.prod(var.aval.shape)
        buffer = Buffer(kind, size, "input", k)
        low.a.buffers.append(buffer)
        inputs.append((kind, tuple(var.aval.shape)))
        stored = Stored(buffer, tuple(var.aval.shape))
        args.append(low.a.small(stored) if size <= low.a.most else stored)
        for place, value in built_in[k] if k < len(built_in) else ():
            args[-1].flat[place] = low.b.const(kind, value)
    results = low.run(jaxpr, closed.consts, args)
    outputs, taken, last = [], set(), []
    for k, (var, x) in enumerate(zip(jaxpr.outvars, results, strict=True)):
        kind, shape = kind_of(var.aval.dtype), tuple(var.aval.shape)
        zeroed = False
        x = low.settled(x)
        own = isinstance(x, Stored) and x.buffer.place == "scratch" and x.buffer not in taken
        if own and not x.buffer.shared:
            zeroed = _starts_with_zeros(low.b.main, x.buffer)
            x.buffer.place, x.buffer.data = "output", k
            taken.add(x.buffer)
        else:
            buffer = Buffer(kind, math.prod(shape), "output", k)
            low.a.buffers.append(buffer)
            if isinstance(x, Stored):
                low.b.copy(buffer, x.buffer)
            else:
                first = len(low.b.main.code)
                low.a.write(buffer, x.ravel().tolist())
                last += low.b.main.code[first:]
                del low.b.main.code[first:]
        outputs.append((kind, shape, zeroed))
    _write_early(low.b.main, last)
    if low.a.in_loops:
        fuse(low.b.main)
        use_known(low.b.main)
    _mark(low.b.main, low.a.buffers)
    return Lowered(low.b.main, low.a.buffers, tuple(inputs), tuple(outputs), low.b.count)


def _write_early(main: Block, stores: list[Node]) -> None:
    """Put what is written at the end to where it is known, if it is much: LLVM takes very long for
    many numbers that it has to keep until the end."""
    if len(stores) < MUCH:
        main.code += stores
        return
    after: dict[Node, list[Node]] = {node: [] for node in main.code}
    end: list[Node] = []
    for store in stores:
        value = store.args[1]
        after.get(value.args[0] if value.op == "part" else value, end).append(store)
    main.code = [x for node in main.code for x in (node, *after[node])] + end


def _starts_with_zeros(main: Block, buffer: Buffer) -> bool:
    """Whether all that is done first to a buffer is to fill it with zeros; then that is left out,
    and the array is handed over empty, which costs nothing."""
    for at, node in enumerate(main.code):
        if node.op == "zero" and node.data is buffer:
            del main.code[at]
            return True
    return False


def _mark(main: Block, buffers: list[Buffer]) -> None:
    """Find what is needed: all that outputs, loops and branches depend on."""
    stores: dict[Buffer, list[Node]] = {}
    waiting: list[Any] = []

    def scan(block: Block) -> None:
        for node in block.code:
            op, data = node.op, node.data
            if op == "store":
                stores.setdefault(data, []).append(node)
            elif op == "copy":
                stores.setdefault(data[0], []).append(node)
            elif op == "call":
                waiting.extend(buffer for buffer, _ in data[2])
            elif op == "while":
                waiting.append(data.going)
                scan(data.condition)
                scan(data.body)
            elif op == "switch":
                waiting.append(data.which)
                for inner in data.blocks:
                    scan(inner)
            elif op == "for":
                scan(data.body)

    scan(main)
    waiting.extend(x for x in buffers if x.place == "output")
    while waiting:
        x = waiting.pop()
        if x.live:
            continue
        x.live = True
        if isinstance(x, Buffer):
            for node in stores.get(x, ()):
                waiting.extend(node.args if node.op == "store" else (node.data[1],))
        elif x.op == "pack":  # numbers of other rows come with these
            waiting.extend(y.args[0] if y.op == "part" else y for y in x.args)
        elif x.op != "const":
            waiting.extend(x.args)
            if x.op == "load":
                waiting.append(x.data)
