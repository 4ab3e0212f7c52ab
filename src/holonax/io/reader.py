"""From the text of a model file to a `Model`, its parameters, and how it is to be run."""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._messages import listed, shown
from ..model.items import REGISTRY, Item
from ..model.model import Model
from .lines import Place, json_lines, toml_lines
from .problems import FileProblem, Problems
from .settings import SECTIONS
from .values import Numbers, check_anywhere, parameters_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FORMAT = 1
_LARGEST = 64_000_000  # bytes of a file


def text_of(path: Path, largest: int = _LARGEST) -> str:
    """The text of a file, or one message why it cannot be had."""
    problems = Problems(path)
    try:
        size = path.stat().st_size
        if size > largest:
            problems.add((), f"the file has {size} bytes; {largest} are the most that is read.")
            problems.check()
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add((), f"byte {error.start} is not UTF-8. Save the file as UTF-8.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.add((), f"the file cannot be read: {reason}. Check its name.")
    problems.check()
    raise AssertionError


def parsed_file(path: Path, text: str) -> tuple[dict[str, Any], Problems]:
    """What a TOML or JSON text says, and where problems of it are kept."""
    problems = Problems(path)
    toml = path.suffix.lower() == ".toml"
    said: Any = None
    try:
        said = tomllib.loads(text) if toml else json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        problems.add((), "it is nested too deeply. Leave brackets out.")
    except json.JSONDecodeError as error:
        problems.found.append(FileProblem(error.lineno, f"this is not JSON: {error.msg}."))
    except ValueError as error:  # of tomllib, and of numbers with too many digits
        problems.found.append(_syntax(str(error), text, "TOML" if toml else "JSON"))
    problems.check()
    if not isinstance(said, dict):
        problems.add((), "a model file is a table with 'items'; this is something else.")
        problems.check()
    problems.lines = toml_lines(text) if toml else json_lines(text)
    return said, problems


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {shown(key)} is given twice. Leave one out")
        out[key] = value
    return out


def _syntax(message: str, text: str, kind: str) -> FileProblem:
    """What a parser said, with the line taken out of it."""
    reason, _, place = message.rstrip(")").partition(" (at ")
    words = place.replace(",", "").split()
    line = int(words[1]) if len(words) > 1 and words[1].isdigit() else None
    if place.startswith("end"):
        line = text.count("\n") + 1
    reason = reason if len(reason) < 160 else f"{reason[:150]} ..."
    return FileProblem(line, f"this is not {kind}: {reason}. Correct it; the rest is read then.")


@dataclasses.dataclass(frozen=True)
class Described:
    """What a file says, checked: the model, its parameters, and the sections about a run."""

    model: Model
    parameters: dict[str, float]
    sections: dict[str, Any]


def content_of(
    said: Mapping[str, Any], problems: Problems, changes: Mapping[str, Any] | None = None
) -> Described:
    """The content of a parsed file, with other values of some parameters and numbers.

    `changes` are by the names of parameters, or as ``"crank.mass"``. Raises a `FileError` with all
    problems of the file.
    """
    known = ["holonax", "gravity", "breaks", "parameters", "items", *SECTIONS]
    for key in said:
        if key not in known:
            problems.add((key,), f"there is no section {key!r}. {_near(key, known)}")
    if said.get("holonax", FORMAT) != FORMAT:
        problems.add(
            ("holonax",),
            f"holonax={shown(said['holonax'])} is a format that is not known here; this version "
            f"reads {FORMAT}. Install a newer one.",
        )
    changes = dict(changes or {})
    named = said.get("parameters", {})
    of_file = {k: changes.pop(k) for k in list(changes) if isinstance(named, dict) and k in named}
    parameters = parameters_of(named, of_file, problems)
    without = set(named) - set(parameters) if isinstance(named, dict) else set()
    numbers = Numbers(parameters, without, problems)
    model = _model(said, numbers, problems)
    for name in [x for x in changes if "." not in x and x != "gravity"]:
        own = listed(named, 20) if isinstance(named, dict) and named else "none"
        problems.add(
            (),
            f"there is no parameter {shown(name)}. Those of the file are {own}; numbers of items "
            "are named as 'crank.mass'.",
        )
    if changes and not problems.found:
        with problems.at(()):
            model = model.with_parameters(with_entries(model, changes))
    sections = {}
    for name, read in SECTIONS.items():
        if name in said:
            sections[name] = read(said[name], (name,), numbers, model)
    problems.check()
    return Described(model, parameters, sections)


def with_entries(model: Model, changes: Mapping[str, ArrayLike]) -> dict[str, Any]:
    """Changes of a model's numbers, where ``"motor.omega"`` may stand for a number among the
    parameters of the function of ``"motor"``."""
    out: dict[str, Any] = {}
    for key, value in changes.items():
        name, _, field = key.rpartition(".")
        own = getattr(model.items.get(name), "parameters", None)
        if isinstance(own, Mapping) and field in own:
            whole = f"{name}.parameters"
            out[whole] = {**out.get(whole, own), field: value}
        else:
            out[key] = value
    return out


def _model(said: Mapping[str, Any], numbers: Numbers, problems: Problems) -> Model:
    model = Model()
    with problems.at(("gravity",)):
        gravity = numbers.plain("gravity", ("gravity",), said.get("gravity"))
        breaks = numbers.plain("breaks", ("breaks",), said.get("breaks", []))
        if not problems.found:
            model = Model(gravity, breaks)
    items = said.get("items", [])
    if not isinstance(items, list):
        problems.add(("items",), f"items={shown(items)} is not a list of tables, [[items]].")
        return model
    add_items(model, items, numbers, problems)
    return model


def add_items(model: Model, items: list[Any], numbers: Numbers, problems: Problems) -> None:
    """Add items to a model, and keep all that is wrong with them."""
    for i, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        added = _add(model, item, ("items", i), numbers, problems)
        if not added and isinstance(name, str):
            numbers.failed.add(name)


def _add(model: Model, said: object, place: Place, numbers: Numbers, problems: Problems) -> bool:
    """Add one item, or keep all that is wrong with it; whether it was added.

    One that refers to an item that failed is looked at, but not added: what would be said of it
    would be about the other.
    """
    if not isinstance(said, Mapping):
        problems.add(place, f"item {place[-1]}: {shown(said)} is not a table.")
        return False
    before = len(problems.found), numbers.skipped
    cls = _class_of(said, place, problems)
    if cls is None:
        return False
    owner = f"{cls.noun} {shown(said.get('name'))}"
    _check_fields(cls, owner, said, place, problems)
    given = numbers.record(cls, owner, place, said)
    if (len(problems.found), numbers.skipped) != before:
        return False
    with problems.at(place, within=said):
        record = cls(**given)
        refers = [getattr(record, x, None) for x in (*cls.touches, "joint")]
        if not numbers.failed.intersection(_flat(refers)):
            model.add(record)
            return True
        for field in cls.functions:
            for text in _flat([getattr(record, field)]):
                with problems.at((*place, field), f"{owner}: {field}"):
                    check_anywhere(text, given.get("parameters") or {})
    return False


def _flat(values: Any) -> set[Any]:
    """The names in fields that hold one, or a list of them."""
    out: set[Any] = set()
    for x in values:
        out |= {y for y in x if isinstance(y, str)} if isinstance(x, tuple) else set()
        out |= {x} if isinstance(x, str) else set()
    return out


def _class_of(said: Mapping[str, Any], place: Place, problems: Problems) -> type[Item] | None:
    kind, name = said.get("type"), said.get("name")
    if isinstance(kind, str) and kind in REGISTRY:
        return REGISTRY[kind]
    owner = f"item {shown(name)}" if name is not None else f"item {place[-1]}"
    if kind is None:
        problems.add(place, f"{owner}: its type is missing. Give one of {listed(REGISTRY, 60)}.")
    else:
        hint = _near(kind, list(REGISTRY))
        problems.add((*place, "type"), f"{owner}: its type {shown(kind)} is not known. {hint}")
    return None


def _check_fields(
    cls: type[Item], owner: str, said: Mapping[str, Any], place: Place, problems: Problems
) -> None:
    known = [field.name for field in dataclasses.fields(cls)]
    for key in said:
        if key not in known and key != "type":
            problems.add((*place, key), f"{owner}: it has no {shown(key)}. {_near(key, known)}")
    for key in _missing(cls, said):
        problems.add(place, f"{owner}: {key} is missing. Give it.")


def _missing(cls: type[Item], said: Mapping[str, Any]) -> list[str]:
    none = dataclasses.MISSING
    return [x.name for x in dataclasses.fields(cls) if x.default is none and x.name not in said]


def _near(word: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are {listed(known, 60)}."
