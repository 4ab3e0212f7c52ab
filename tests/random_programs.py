"""Random programs: lists of statements drawn by hypothesis, and what they mean in JAX.

A statement takes values that were made before, by their numbers, and makes new ones. Blocks inside
of loops and branches see all that was made outside of them, so arrays are used after they were
handed on, handed on twice, exchanged, or not used at all. All numbers are small and whole, so that
results have to agree in every bit, however a product and a sum are rounded.
"""

import math
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

MOST = 31  # numbers are cut off beyond
DTYPES = {"f": np.dtype("float64"), "i": np.dtype("int64")}


class Type(NamedTuple):
    """A kind of number and a shape."""

    kind: str
    shape: tuple[int, ...]


INDEX = Type("i", ())


class Style(NamedTuple):
    """What programs are made of: shapes of arrays, how many of the latest values a statement may
    take, how often each kind of statement is drawn, which functions of one array."""

    shapes: tuple[tuple[int, ...], ...]
    latest: int
    plain: dict[str, int]
    nested: dict[str, int]
    unary: tuple[str, ...]
    statements: int = 10
    depth: int = 2
    focused: bool = False  # one value is taken more often than others


class Program(NamedTuple):
    """Statements on inputs, and the numbers of those values that are returned."""

    inputs: tuple[Type, ...]
    statements: tuple[Any, ...]
    results: tuple[Any, ...]

    def __call__(self, *args: Any) -> list[Any]:
        env = evaluated(self.statements, list(args))
        return [operand(env, x) for x in self.results]

    def arguments(self, seed: int) -> list[np.ndarray]:
        """Whole numbers for its inputs; indices are in and out of range."""
        rng = np.random.default_rng(seed)
        return [
            rng.integers(-5, 9, t.shape).astype(DTYPES[t.kind])
            if t != INDEX
            else np.array(rng.integers(-3, 7))
            for t in self.inputs
        ]


# -- what statements mean ---------------------------------------------------------------------


def operand(env: list[Any], x: Any) -> Any:
    """A value by its number, or a constant."""
    if isinstance(x, int):
        return env[x]
    kind, shape, value = x
    if value is None:
        return jnp.arange(math.prod(shape), dtype=DTYPES[kind]).reshape(shape)
    return jnp.full(shape, value, DTYPES[kind])


def evaluated(statements: Any, env: list[Any]) -> list[Any]:
    """All values, those that were given first."""
    env = list(env)
    for name, *parts in statements:
        env.extend(MEANING[name](env, *parts))
    return env


def cut(x: Any) -> Any:
    return jnp.clip(x, -MOST, MOST)


UNARY = {
    "neg": lax.neg,
    "abs": lax.abs,
    "sign": lax.sign,
    "square": lambda x: cut(x * x),
    "affine": lambda x: cut(1 - (-x) * 3 - (2 - x)),
    "ravel": jnp.ravel,
    "transpose": jnp.transpose,
    "reverse": lambda x: lax.rev(x, range(x.ndim)),
    "column": lambda x: x.reshape(*x.shape, 1),
    "total": lambda x: cut(x.sum()),
    "largest": lambda x: x.max(),
    "totals": lambda x: cut(x.sum(axis=0)),
    "running": lambda x: cut(jnp.cumsum(x.ravel())),
    "twice": lambda x: jnp.concatenate([x.ravel(), x.ravel()]),
    "every other": lambda x: x.ravel()[::2],
    "first": lambda x: x.ravel()[0],
    "to float": lambda x: lax.convert_element_type(x, np.float64),
    "to whole": lambda x: lax.convert_element_type(x, np.int64),
    "copy": jnp.copy,
}
BINARY = {
    "add": lambda x, y: cut(x + y),
    "sub": lambda x, y: cut(x - y),
    "mul": lambda x, y: cut(x * y),
    "max": lax.max,
    "min": lax.min,
    "choose": lambda x, y: jnp.where(x < y, x, y + 1),
    "products": lambda x, y: cut(x * y - y * (-x) + x * 2),
    "inner": lambda x, y: cut(jnp.vdot(x, y)),
}


INDEXED = {"read": 2, "write": 3, "spread": 1}
NESTED = {"call": 2, "branch": 2, "repeat": 2, "until": 2, "along": 2}
# All that there is.
VARIED = Style(
    ((), (6,), (3,), (2, 3), (12,), (3, 4)),
    8,
    {"unary": 2, "binary": 2, "fill": 1, "constants": 1, "reshape": 1} | INDEXED,
    NESTED,
    tuple(sorted(UNARY)),
)
# Few arrays, of which old and new values are needed: is anything overwritten too early?
UPDATES = Style(
    ((), (6,), (2, 3)),
    3,
    {"write": 8, "unary": 4, "binary": 2, "reshape": 5},
    dict.fromkeys(NESTED, 1),
    ("affine", "copy", "neg", "ravel", "reverse"),
    statements=16,
    focused=True,
)
# Around and beyond the size up to which arrays are taken apart.
LARGE = VARIED._replace(shapes=((), (1030,), (3,), (2, 515), (1024,), (9,)), latest=6)


def _read(env: list[Any], how: str, x: Any, i: Any, width: int) -> list[Any]:
    # XLA makes one slice of a slice of a slice, and forgets that indices of the second are clipped,
    # or that they are dropped: it also reads an entry by a slice before it overwrites the entry.
    x, i = lax.optimization_barrier(operand(env, x)), operand(env, i)
    if how == "slice":
        starts = [i] + [0] * (x.ndim - 1)
        part = lax.dynamic_slice(x, starts, (width, *x.shape[1:]))
        return [lax.optimization_barrier(part)]
    if how == "clip":
        return [x.at[i].get(mode="clip")]
    if how == "fill":
        return [x.at[i].get(mode="fill", fill_value=7)]
    return [x[i]]


def _written(env: list[Any], how: str, x: Any, i: Any, new: Any) -> list[Any]:
    x, i, new = (operand(env, y) for y in (x, i, new))
    if how == "slice":
        return [lax.dynamic_update_slice(x, new[None], [i] + [0] * (x.ndim - 1))]
    at = x.at[i]
    return [
        at.add(new, mode="clip")
        if how == "add"
        else at.max(new, mode="drop")
        if how == "max"
        else at.set(new, mode="clip" if how == "set clip" else None)
    ]


def _spread(env: list[Any], how: str, x: Any, indices: Any, new: Any) -> list[Any]:
    """At many indices at once, some of them out of range or equal."""
    x, indices, new = (operand(env, y) for y in (x, indices, new))
    if how == "get":
        return [x[indices]]
    return [x.at[indices].add(new) if how == "add" else x.at[indices].min(new, mode="clip")]


def _call(env: list[Any], given: Any, block: Any, results: Any) -> list[Any]:
    def function(*args: Any) -> list[Any]:
        inner = evaluated(block, [*env, *args])
        return [operand(inner, x) for x in results]

    return jax.jit(function)(*(operand(env, x) for x in given))


def _branch(env: list[Any], which: Any, given: Any, blocks: Any) -> list[Any]:
    def function(block: Any, results: Any) -> Any:
        def run(*args: Any) -> list[Any]:
            inner = evaluated(block, [*env, *args])
            return [operand(inner, x) for x in results]

        return run

    args = [operand(env, x) for x in given]
    which, functions = operand(env, which), [function(*x) for x in blocks]
    if len(functions) == 2:
        return lax.cond(which > 1, *functions, *args)
    return lax.switch(which, functions, *args)


def _repeat(env: list[Any], times: Any, start: Any, block: Any, results: Any) -> list[Any]:
    """`times` is a number, or the number of a value."""
    bound = times if isinstance(times, int) else jnp.clip(operand(env, times[0]), 0, 4)

    def body(k: Any, carry: Any) -> Any:
        inner = evaluated(block, [*env, jnp.asarray(k, np.int64), *carry])
        return tuple(operand(inner, x) for x in results)

    return list(lax.fori_loop(0, bound, body, tuple(operand(env, x) for x in start)))


def _until(env: list[Any], start: Any, block: Any, results: Any, limit: Any) -> list[Any]:
    """At most four times, and while what is carried first is not too large."""

    def going(state: Any) -> Any:
        return (state[0] < 4) & (jnp.sum(state[1]) < limit)

    def body(state: Any) -> Any:
        inner = evaluated(block, [*env, *state])
        return (state[0] + 1, *(operand(inner, x) for x in results))

    first = (jnp.asarray(0, np.int64), *(operand(env, x) for x in start))
    return list(lax.while_loop(going, body, first))


def _along(
    env: list[Any], length: int, reverse: bool, start: Any, rows: Any, block: Any, results: Any
) -> list[Any]:
    def body(carry: Any, row: Any) -> Any:
        inner = evaluated(block, [*env, *carry, *row])
        out = [operand(inner, x) for x in results]
        return tuple(out[: len(start)]), tuple(out[len(start) :])

    given = tuple(operand(env, x) for x in start)
    carry, stacks = lax.scan(
        body, given, tuple(operand(env, x) for x in rows), length=length, reverse=reverse
    )
    return [*carry, *stacks]


MEANING = {
    "unary": lambda env, how, x: [UNARY[how](operand(env, x))],
    "binary": lambda env, how, x, y: [BINARY[how](operand(env, x), operand(env, y))],
    "fill": lambda env, x, shape: [jnp.broadcast_to(operand(env, x), shape)],
    "reshape": lambda env, x, shape: [operand(env, x).reshape(shape)],
    "constant": lambda env, x: [operand(env, x)],
    "read": _read,
    "write": _written,
    "spread": _spread,
    "call": _call,
    "branch": _branch,
    "repeat": _repeat,
    "until": _until,
    "along": _along,
}


# -- how they are drawn -----------------------------------------------------------------------


class Writer:
    """Draws statements; `types` are those of all values so far."""

    def __init__(self, random: Random, types: list[Type], style: Style, depth: int):
        self.random, self.types, self.style, self.depth = random, list(types), style, depth
        self.statements: list[Any] = []
        self.focus: int | None = None  # a value that is taken again and again

    def one_of(self, options: Any) -> Any:
        return self.random.choice(options)

    def constant(self, t: Type) -> Any:
        return (t.kind, t.shape, self.one_of([None, 0, 1, 2, -3]))

    def value(self, wanted: Any = None) -> Any:
        """A value of a type, or one that a condition holds for; the latest ones first."""
        fits = (lambda t: t == wanted) if isinstance(wanted, Type) else wanted or (lambda t: True)
        found: list[Any] = [k for k, t in enumerate(self.types) if fits(t)]
        again = [self.focus] * self.style.latest if self.focus in found else []
        found = [*found[::-1][: self.style.latest], *again]
        if isinstance(wanted, Type):
            found.append(self.constant(wanted))
        return self.one_of(found) if found else None

    def type_of(self, x: Any) -> Type:
        return self.types[x] if isinstance(x, int) else Type(*x[:2])

    def add(self, statement: Any, types: Any) -> None:
        self.statements.append(statement)
        self.types.extend(types)

    def block(self, given: list[Type], wanted: list[Type] | None) -> tuple[Any, Any, list[Type]]:
        """Statements that see all values and those given, and results; their types if not
        wanted in particular."""
        inner = Writer(self.random, [*self.types, *given], self.style, self.depth - 1)
        inner.focus = self.focus
        for _ in range(self.random.randint(0, 4)):
            inner.statement()
        if wanted is None:
            results = [inner.value() for _ in range(self.random.randint(1, 3))]
        else:
            results = [inner.value(t) for t in wanted]
        return tuple(inner.statements), tuple(results), [inner.type_of(x) for x in results]

    # each makes one statement, or none if there is nothing to make it of

    def unary(self) -> None:
        how, x = self.one_of(self.style.unary), self.value()
        t = self.types[x]
        shape = {
            "ravel": (math.prod(t.shape),),
            "transpose": t.shape[::-1],
            "column": (*t.shape, 1),
            "total": (),
            "largest": (),
            "first": (),
            "totals": t.shape[1:],
            "running": (math.prod(t.shape),),
            "twice": (2 * math.prod(t.shape),),
            "every other": (-(-math.prod(t.shape) // 2),),
        }.get(how, t.shape)
        too_much = how in ("column", "twice") and math.prod(t.shape) * (len(t.shape) + 1) > 36
        if how in ("largest", "first") and not math.prod(t.shape):
            return
        if (how == "totals" and not t.shape) or too_much:
            return
        kind = {"to float": "f", "to whole": "i"}.get(how, t.kind)
        self.add(("unary", how, x), [Type(kind, shape)])

    def binary(self) -> None:
        how, x = self.one_of(sorted(BINARY)), self.value()
        t = self.types[x]
        shape = () if how == "inner" else t.shape
        self.add(("binary", how, x, self.value(t)), [Type(t.kind, shape)])

    def fill(self) -> None:
        kind, shape = self.one_of("fi"), self.one_of(self.style.shapes)
        self.add(("fill", self.value(Type(kind, ())), shape), [Type(kind, shape)])

    def constants(self) -> None:
        t = Type(self.one_of("fi"), self.one_of(self.style.shapes))
        self.add(("constant", self.constant(t)), [t])

    def reshape(self) -> None:
        x = self.value(lambda t: len(t.shape) > 0)
        if x is not None:
            t = self.types[x]
            n = math.prod(t.shape)
            same = [s for s in self.style.shapes if math.prod(s) == n and s != t.shape]
            shape = self.one_of(same or [(n,), (1, *t.shape)])
            self.add(("reshape", x, shape), [Type(t.kind, shape)])

    def read(self) -> None:
        x = self.value(lambda t: len(t.shape) > 0 and t.shape[0] > 0)
        if x is not None:
            t, how = self.types[x], self.one_of(["slice", "clip", "fill", "plain"])
            width = self.random.randint(1, min(t.shape[0], 3))
            shape = (width, *t.shape[1:]) if how == "slice" else t.shape[1:]
            self.add(("read", how, x, self.value(INDEX), width), [Type(t.kind, shape)])

    def write(self) -> None:
        x = self.value(lambda t: len(t.shape) > 0 and t.shape[0] > 0)
        if x is not None:
            t, how = self.types[x], self.one_of(["slice", "add", "max", "set", "set clip"])
            new = self.value(Type(t.kind, t.shape[1:]))
            self.add(("write", how, x, self.value(INDEX), new), [t])
            if self.style.focused and self.random.random() < 0.5:
                self.focus = len(self.types) - 1

    def spread(self) -> None:
        x = self.value(lambda t: len(t.shape) > 0 and t.shape[0] > 0)
        if x is not None:
            t, how, n = self.types[x], self.one_of(["get", "add", "min"]), self.one_of([3, 6])
            indices = self.value(Type("i", (n,)))
            new = self.value(Type(t.kind, (n, *t.shape[1:])))
            result = Type(t.kind, (n, *t.shape[1:])) if how == "get" else t
            self.add(("spread", how, x, indices, new), [result])

    def some(self) -> list[Any]:
        return [self.value() for _ in range(self.random.randint(1, 4))]

    def call(self) -> None:
        given = self.some()
        block, results, types = self.block([self.types[x] for x in given], None)
        self.add(("call", tuple(given), block, results), types)

    def branch(self) -> None:
        given = self.some()
        inner = [self.types[x] for x in given]
        block, results, types = self.block(inner, None)
        blocks = [(block, results)]
        for _ in range(self.random.randint(1, 2)):
            block, results, _ = self.block(inner, types)
            blocks.append((block, results))
        which = self.value(INDEX)
        self.add(("branch", which, tuple(given), tuple(blocks)), types)

    def repeat(self) -> None:
        start = self.some()
        types = [self.types[x] for x in start]
        block, results, _ = self.block([INDEX, *types], types)
        times = self.one_of([0, 1, 3, 4, (self.value(INDEX),), (self.value(INDEX),)])
        self.add(("repeat", times, tuple(start), block, results), types)

    def until(self) -> None:
        start = self.some()
        types = [self.types[x] for x in start]
        block, results, _ = self.block([INDEX, *types], types)
        limit = self.one_of([5, 40, 10_000])
        self.add(("until", tuple(start), block, results, limit), [INDEX, *types])

    def along(self) -> None:
        start = self.some()
        first = self.value(lambda t: len(t.shape) > 0 and t.shape[0] < 10)
        length = self.types[first].shape[0] if first is not None else 3
        rows = [] if first is None else [first]
        rows += [self.value(Type("i", (length,)))] * self.random.randint(0, 1)
        types = [self.types[x] for x in start]
        inner = [*types, *(Type(t.kind, t.shape[1:]) for t in map(self.type_of, rows))]
        block, results, _ = self.block(inner, types)
        seen = Writer(self.random, [*self.types, *inner], self.style, 0)
        stacks = [seen.value() for _ in range(self.random.randint(0, 2))]
        stacked = [Type(t.kind, (length, *t.shape)) for t in map(seen.type_of, stacks)]
        if any(math.prod(t.shape) > 4200 for t in stacked):
            return
        reverse = self.random.random() < 0.5
        whole = (*results, *stacks)
        self.add(
            ("along", length, reverse, tuple(start), tuple(rows), block, whole),
            [*types, *stacked],
        )

    def statement(self) -> None:
        often = {**self.style.plain, **(self.style.nested if self.depth > 0 else {})}
        getattr(self, self.one_of([name for name, n in often.items() for _ in range(n)]))()


def program(random: Random, style: Style = VARIED) -> Program:
    """A program of a style."""
    arrays = style.shapes[1:]
    inputs = (*(Type("f", x) for x in arrays), INDEX, Type("f", ()), Type("i", arrays[0]))
    writer = Writer(random, list(inputs), style, style.depth)
    for _ in range(random.randint(style.statements // 2, style.statements)):
        writer.statement()
    made = range(len(inputs) - 2, len(writer.types))
    results = tuple(random.choice(made) for _ in range(random.randint(1, 2 + len(made) // 3)))
    return Program(inputs, tuple(writer.statements), results)


def programs(style: Style = VARIED) -> st.SearchStrategy[Program]:
    """Programs of a style."""
    return st.builds(program, st.randoms(use_true_random=False), st.just(style))
