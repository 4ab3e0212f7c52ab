"""In which line of a TOML or JSON text each thing stands, so that messages can say it.

A place is a tuple of keys and indices, ``("items", 3, "length")``. The texts are known to be valid
where this is asked, so that the scan only has to keep strings, brackets and comments apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]
Lines = dict[Place, int]

_TOML = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}=\n]',
    re.DOTALL,
)
_KEY = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|[\w-]+')
_JSON = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+')


def toml_lines(text: str) -> Lines:
    """The line of each table and each key of a TOML text."""
    out: Lines = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for line, statement in _statements(text):
        head = statement.strip()
        if head.startswith("[["):
            table = _counted(_keys(head.strip("[] \t")), counts, new=True)
            out[table] = line
        elif head.startswith("["):
            table = _counted(_keys(head.strip("[] \t")), counts, new=False)
            out.setdefault(table, line)
        elif head:
            out[(*table, *_keys(head))] = line
    return out


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(line, text before the equals sign or the whole header) of each statement."""
    line, began, start, depth, head = 1, 1, 0, 0, None
    for found in _TOML.finditer(text + "\n"):
        sign = found[0]
        if sign == "\n" and depth == 0:
            yield began, (text[start : found.start()] if head is None else head)
            start, head, began = found.end(), None, line + 1
        elif sign == "=" and depth == 0 and head is None:
            head = text[start : found.start()]
        elif sign in ("[", "{") and head is not None:
            depth += 1
        elif sign in ("]", "}") and head is not None:
            depth = max(depth - 1, 0)
        line += sign.count("\n")


def _keys(text: str) -> Place:
    """The parts of a key with dots."""
    out = []
    for found in _KEY.finditer(text):
        word = found[0]
        if word[0] == '"':
            try:
                word = json.loads(word)
            except ValueError:
                word = word[1:-1]
        out.append(word[1:-1] if word[0] == "'" else word)
    return tuple(out)


def _counted(keys: Place, counts: dict[Place, int], *, new: bool) -> Place:
    """The place of a header, with the numbers of arrays of tables in it."""
    place: Place = ()
    for i, key in enumerate(keys):
        place = (*place, key)
        if new and i == len(keys) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def json_lines(text: str) -> Lines:
    """The line of each value of a JSON text."""
    out: Lines = {}
    line = 1
    stack: list[list[Any]] = []  # of each open bracket: its place, and the key or index within
    key: Any = None

    def place() -> Place:
        return () if not stack else (*stack[-1][0], stack[-1][1])

    for found in _JSON.finditer(text):
        sign = found[0]
        if sign == "\n":
            line += 1
        elif sign in "{[":
            out.setdefault(place(), line)
            stack.append([place(), 0 if sign == "[" else None])
        elif sign in "}]":
            if stack:
                stack.pop()
        elif sign == ",":
            if stack and isinstance(stack[-1][1], int):
                stack[-1][1] += 1
            elif stack:
                stack[-1][1] = None
        elif sign == ":":
            if stack:
                stack[-1][1] = key
                out.setdefault(place(), line)
        else:
            key = json.loads(sign) if sign[0] == '"' else sign
            if stack and isinstance(stack[-1][1], int):
                out.setdefault(place(), line)
    return out


def line_of(lines: Lines, place: Place) -> int | None:
    """The line of a place, or of what it is in."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None
