"""The expressions of drivers, forces and files: from text to a tree, and nothing else.

    sum       numbers, names, + - * / % **, parentheses, functions
    where     comparisons < <= > >= == !=, and, or, not, inside of where(condition, then, else)
    names     t, omega, crank.angle, 'crank 2'.x (quotes around names that are no single word)

The text is never given to Python: there are no attributes, no calls but of the functions below, and
no assignment. What is not understood is refused with the column it stands in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NoReturn

from .._messages import listed, shown

Kind = Literal["number", "truth", "list", "word"]

LONGEST, DEEPEST = 4000, 150  # characters of a text, and levels of its tree

# Each function with the kinds of its arguments; those after a bar may be left out, and a star
# stands for as many of the kind before it as are given.
SIGNATURES = {
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), "number"),
    **dict.fromkeys(("sinh", "cosh", "tanh", "exp", "log", "log10", "sqrt"), "number"),
    **dict.fromkeys(("abs", "sign", "floor"), "number"),
    "atan2": "number number",
    "hypot": "number number",
    "min": "number number *",
    "max": "number number *",
    "where": "truth number number",
    "if": "truth number number",
    "step": "number | number number",
    "pulse": "number number | number",
    "table": "list list | word",
    "interpolate": "number list list",
    "smooth": "number number number",
}
# Functions of the time t, with how many of their arguments say when they are not smooth.
TIMED = {"step": 1, "pulse": 2, "table": 2}
CONSTANTS = ("pi", "deg")
_WORDS = ("and", "or", "not")

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<sign>\*\*|<=|>=|==|!=|[-+*/%<>(),.\[\]]))"
)
# How strongly an operator binds; a comparison is not followed by another.
_POWER = {"or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4}
_POWER |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "**": 8}
_NOT, _MINUS = 3, 7
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class ExpressionError(ValueError):
    """What is wrong with an expression, and in which column."""

    def __init__(self, text: str, at: int, reason: str):
        self.text, self.at, self.reason = text, at, reason
        super().__init__(f"{shown(text)}, column {at + 1}: {reason}")


@dataclass(frozen=True)
class Part:
    """A part of an expression: where it stands in the text, from `at` to `end`, and its kind."""

    at: int
    end: int

    @property
    def kind(self) -> Kind:
        return "number"

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it is made of."""
        return ()

    def all(self) -> Iterator[Part]:
        """The node and all below it."""
        yield self
        for part in self.parts:
            yield from part.all()


@dataclass(frozen=True)
class Number(Part):
    """A number as it was written."""

    value: float


@dataclass(frozen=True)
class Name(Part):
    """A quantity, of an object or alone."""

    owner: str | None
    name: str

    @property
    def path(self) -> str:
        """As one word, ``crank.angle``."""
        return self.name if self.owner is None else f"{self.owner}.{self.name}"


@dataclass(frozen=True)
class Word(Part):
    """A word in quotes."""

    text: str

    @property
    def kind(self) -> Kind:
        return "word"


@dataclass(frozen=True)
class Listed(Part):
    """Numbers in brackets."""

    items: tuple[Part, ...]

    @property
    def kind(self) -> Kind:
        return "list"

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.items


@dataclass(frozen=True)
class Operation(Part):
    """An operator with one or two operands."""

    sign: str
    operands: tuple[Part, ...]

    @property
    def kind(self) -> Kind:
        return "truth" if self.sign in (*COMPARISONS, *_WORDS) else "number"

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.operands


@dataclass(frozen=True)
class Call(Part):
    """A function with its arguments."""

    function: str
    arguments: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.arguments


@lru_cache(maxsize=4096)
def parsed(text: str) -> Part:
    """The tree of an expression, a number; or an `ExpressionError`."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ExpressionError(str(text)[:60], 0, f"more than {LONGEST} characters. Split it.")
    reader = _Reader(text)
    tree = reader.binary(0, 0)
    if reader.next.kind != "end":
        reader.refuse(f"{reader.next.text!r} was not expected. Is an operator missing before it?")
    _of_kind(text, tree, "number")
    return tree


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int
    end: int


class _Reader:
    """A text taken token by token, operators by how strongly they bind."""

    def __init__(self, text: str):
        self.text = text
        self._at = 0
        self.next = self._token()

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        raise ExpressionError(self.text, self.next.at if at is None else at, reason)

    def _token(self) -> _Token:
        rest = self.text[self._at :]
        if not rest.strip():
            end = len(self.text.rstrip())
            return _Token("end", "its end", end, end)
        found = _TOKEN.match(self.text, self._at)
        if found is None:
            at = self._at + len(rest) - len(rest.lstrip())
            raise ExpressionError(self.text, at, _unknown_sign(self.text[at]))
        self._at = found.end()
        kind = str(found.lastgroup)
        return _Token(kind, found[kind], found.start(kind), found.end(kind))

    def take(self) -> _Token:
        token, self.next = self.next, self._token()
        return token

    def expect(self, sign: str, reason: str) -> _Token:
        if self.next.text != sign or self.next.kind != "sign":
            self.refuse(f"{sign!r} is missing {reason}.")
        return self.take()

    def binary(self, least: int, depth: int) -> Part:
        """An operand and all operators after it that bind at least as strongly."""
        if depth > DEEPEST:
            self.refuse("it is nested too deeply. Split it, or name parts of it as parameters.")
        left, chain = self.operand(depth + 1), 0
        while self.next.kind in ("sign", "name"):
            sign = self.next.text
            power = _POWER.get(sign, -1)
            if power < max(least, 1):
                break
            chain += 1
            if depth + chain > DEEPEST:
                self.refuse(f"more than {DEEPEST} operators in a row. Split it with parentheses.")
            token = self.take()
            # ** groups from the right, and its exponent may have a sign
            right = self.binary(power if sign == "**" else power + 1, depth + chain)
            wanted = "truth" if sign in _WORDS else "number"
            for operand in (left, right):
                _of_kind(self.text, operand, wanted)
            left = Operation(left.at, right.end, token.text, (left, right))
        return left

    def operand(self, depth: int) -> Part:
        token = self.next
        if token.kind == "number":
            self.take()
            value = float(token.text)
            if value == float("inf"):
                self.refuse(f"{token.text} is too large for a 64-bit number.", token.at)
            return Number(token.at, token.end, value)
        if token.text in ("-", "+") and token.kind == "sign":
            self.take()
            inner = _of_kind(self.text, self.binary(_MINUS, depth + 1), "number")
            return Operation(token.at, inner.end, token.text, (inner,))
        if token.text == "not" and token.kind == "name":
            self.take()
            inner = _of_kind(self.text, self.binary(_NOT, depth + 1), "truth")
            return Operation(token.at, inner.end, "not", (inner,))
        if token.text == "(" and token.kind == "sign":
            self.take()
            inner = self.binary(0, depth + 1)
            self.expect(")", f"for the '(' in column {token.at + 1}")
            return inner
        if token.text == "[" and token.kind == "sign":
            return self.listed(depth)
        if token.kind == "quoted" or (token.kind == "name" and token.text not in _WORDS):
            return self.named(depth)
        self.refuse(f"a number or a name was expected, not {_described(token)}.")

    def listed(self, depth: int) -> Part:
        first = self.take()
        items: list[Part] = []
        while not (self.next.kind == "sign" and self.next.text == "]"):
            items.append(_of_kind(self.text, self.binary(0, depth + 1), "number"))
            if self.next.text != ",":
                break
            self.take()
        last = self.expect("]", f"for the '[' in column {first.at + 1}")
        return Listed(first.at, last.end, tuple(items))

    def named(self, depth: int) -> Part:
        token = self.take()
        word = token.text[1:-1] if token.kind == "quoted" else token.text
        fields: list[_Token] = []
        while self.next.kind == "sign" and self.next.text == ".":
            self.take()
            if self.next.kind != "name":
                self.refuse("a quantity of an object is missing, as in crank.angle.")
            fields.append(self.take())
        if fields:
            return Name(token.at, fields[-1].end, word, ".".join(x.text for x in fields))
        if token.kind == "quoted":
            return Word(token.at, token.end, word)
        if self.next.kind == "sign" and self.next.text == "(":
            return self.called(token, depth)
        if token.text in SIGNATURES:
            self.refuse(f"{token.text} is a function. Give its arguments in parentheses.", token.at)
        return Name(token.at, token.end, None, word)

    def called(self, token: _Token, depth: int) -> Part:
        if token.text not in SIGNATURES:
            near = difflib.get_close_matches(token.text, SIGNATURES, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"There are {', '.join(SIGNATURES)}."
            self.refuse(f"there is no function {token.text!r}. {remedy}", token.at)
        self.take()
        found: list[Part] = []
        while not (self.next.kind == "sign" and self.next.text == ")"):
            found.append(self.binary(0, depth + 1))
            if self.next.text != ",":
                break
            self.take()
        last = self.expect(")", f"for {token.text}(...)")
        _check_arguments(self.text, token, found)
        return Call(token.at, last.end, token.text, tuple(found))


def _check_arguments(text: str, token: _Token, found: list[Part]) -> None:
    """Refuse arguments of a function that are too few, too many or of another kind."""
    words = SIGNATURES[token.text].split()
    least = len([x for x in words if x != "*"])
    if "|" in words:
        least = words.index("|")
        words.remove("|")
    if words[-1] == "*":
        words = words[:-1] + [words[-2]] * max(len(found) - len(words) + 1, 0)
    if not least <= len(found) <= len(words):
        wanted = f"{least}" if least == len(words) else f"{least} to {len(words)}"
        wanted = f"{least} or more" if "*" in SIGNATURES[token.text] else wanted
        raise ExpressionError(
            text, token.at, f"{token.text} takes {wanted} arguments, {len(found)} are given."
        )
    for node, kind in zip(found, words):
        _of_kind(text, node, kind)


_KINDS = {
    "number": "a number",
    "truth": "a condition such as t < 2",
    "list": "a list of numbers in brackets",
    "word": "a word in quotes",
}


def _of_kind(text: str, node: Part, kind: str) -> Part:
    if node.kind != kind:
        raise ExpressionError(
            text, node.at, f"{_KINDS[kind]} was expected here, not {_KINDS[node.kind]}."
        )
    return node


def _described(token: _Token) -> str:
    return token.text if token.kind == "end" else repr(token.text)


def _unknown_sign(sign: str) -> str:
    if sign == "^":
        return "'^' is not known. A power is written **, as in x**2."
    if sign == "=":
        return "'=' is not known. Two numbers are compared with ==."
    if sign in "'\"":
        return f"the quote {sign} is not closed."
    return f"{sign!r} is not known. Use numbers, names and + - * / % ** ( ) , < > == and or not."


def unknown_name(text: str, node: Name, known: Iterable[str]) -> ExpressionError:
    """The error for a name that means nothing here."""
    known = list(known)
    near = difflib.get_close_matches(node.path, known, n=1, cutoff=0.7)
    hint = f"Did you mean {near[0]}?" if near else f"There are {listed(known, 20) or 'none here'}."
    return ExpressionError(text, node.at, f"{node.path!r} is not known. {hint}")


def names_in(tree: Part) -> list[Name]:
    """The names in a tree, in order."""
    return [node for node in tree.all() if isinstance(node, Name)]


def fixed_names(tree: Part) -> list[Name]:
    """The names on which it depends when an expression is not smooth: the times of `step`, `pulse`
    and `table`, the numbers of `interpolate`, and what t is compared with."""
    found: list[Any] = []
    for node in tree.all():
        if isinstance(node, Call) and node.function in TIMED:
            found += node.arguments[: TIMED[node.function]]
        elif isinstance(node, Call) and node.function == "interpolate":
            found += node.arguments[1:]
        elif isinstance(node, Operation) and node.sign in COMPARISONS:
            found += [x for x in node.operands if any(map(is_time, node.operands))]
    return [x for node in found for x in names_in(node) if x.path not in ("t", *CONSTANTS)]


def is_time(node: Part) -> bool:
    """Whether a node is t alone."""
    return isinstance(node, Name) and node.path == "t"
