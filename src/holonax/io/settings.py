"""The sections of a model file about a run: how far and how, events on the way, what comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._messages import listed, shown
from ..model.bodies import BodyItem
from ..model.items import ModelError
from ..model.model import Model
from ..system.expressed import full_name
from ..system.expression import Expression
from ..system.expression_parser import unknown_name
from .lines import Place
from .values import Numbers

# Each setting of a run with the kind of value it takes.
RUN = {
    "t_end": "number",
    "t": "number",
    "dt": "number",
    "rtol": "number",
    "atol": "number",
    "method": "word",
    "formulation": "method",
    "integrator": "method",
    "save": "save",
    "hold": "names",
    "hold_velocity": "names",
    "released": "names",
    "solver": "word",
}
EVENT = ("name", "function", "level", "direction", "terminal", "impact", "engage", "release")


def read_run(said: object, place: Place, numbers: Numbers, model: Model) -> dict[str, Any]:
    """The options of a run, ready for `Model.simulate` but for the names of methods."""
    out: dict[str, Any] = {}
    if not isinstance(said, Mapping):
        numbers.problems.add(place, f"run={shown(said)} is not a table.")
        return out
    for key, value in said.items():
        here = (*place, key)
        with numbers.problems.at(here):
            if key not in RUN:
                raise ModelError(f"run: there is no setting {key!r}. There are {', '.join(RUN)}.")
            out[key] = _setting(key, value, here, numbers, model)
    return out


def _setting(key: str, value: object, place: Place, numbers: Numbers, model: Model) -> Any:
    kind, what = RUN[key], f"run: {key}"
    if kind == "number":
        return numbers.number(what, place, value)
    if kind == "word":
        words = ("auto",) if key == "method" else ("auto", "dense", "block")
        if not isinstance(value, str) or value not in words:
            raise ModelError(f"{what}={shown(value)} is not known. There are {', '.join(words)}.")
        return value
    if kind == "names":
        return _names(what, value, model, numbers)
    if kind == "method":
        return method_of(key, value, place, numbers)
    if isinstance(value, str) and value in ("steps", "end"):
        return value
    return numbers.plain(what, place, value)


def _names(what: str, value: object, model: Model, numbers: Numbers) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
        raise ModelError(f"{what}={shown(value)} must be a list of names.")
    for name in names:
        both = {name, name.rpartition(".")[0], re.split(r"[\[(.]", name)[0]}  # nodes of beams too
        if not both & ({*model} | numbers.failed):
            known = listed(model, 20)
            raise ModelError(f"{what}: there is no object {shown(name)}. There are {known}.")
    return names


def method_of(kind: str, value: object, place: Place, numbers: Numbers) -> Any:
    """A formulation or integrator: by its name, or as a table of its type and options."""
    from ..run.by_name import options_by_name

    def by_name(name: str) -> Any:
        both = (name, None) if kind == "formulation" else (None, name)
        return options_by_name(*both, dt=1.0)[kind]

    if isinstance(value, str):
        return by_name(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ModelError(
            f"run: {kind}={shown(value)} is not a method. Give its name, or a table such as "
            '{ type = "Baumgarte", alpha = 5.0 }.'
        )
    cls = type(by_name(value["type"]))
    words = {k: x for k, x in value.items() if k != "type" and isinstance(x, str | bool)}
    others = {k: x for k, x in value.items() if k != "type" and k not in words}
    return cls(**words, **{k: numbers.plain(f"{kind}: {k}", place, x) for k, x in others.items()})


def read_events(said: object, place: Place, numbers: Numbers, model: Model) -> list[Any]:
    """The events of a run."""
    if not isinstance(said, list):
        numbers.problems.add(place, f"events={shown(said)} is not a list of tables, [[events]].")
        return []
    out = []
    for i, event in enumerate(said):
        with numbers.problems.at((*place, i)):
            out.append(_event(event, (*place, i), numbers))
    return out


def _event(said: object, place: Place, numbers: Numbers) -> Any:
    from .. import Event, Impact

    if not isinstance(said, Mapping):
        raise ModelError(f"events: {shown(said)} is not a table.")
    owner = f"event {shown(said.get('name'))}"
    for key in said:
        if key not in EVENT:
            raise ModelError(f"{owner}: it has no {shown(key)}. It has {', '.join(EVENT)}.")
    for key in ("name", "function"):
        if not isinstance(said.get(key), str):
            raise ModelError(f"{owner}: its {key}, a text, is missing. Give it.")
    options = {k: x for k, x in said.items() if k not in ("name", "function", "impact")}
    if "level" in options:
        options["level"] = numbers.number(f"{owner}: level", place, options["level"])
    impact = said.get("impact")
    if isinstance(impact, Mapping):
        said_of = {
            str(k): x if k == "rest" else numbers.plain(f"{owner}: {k}", place, x)
            for k, x in impact.items()
        }
        options["change"] = Impact(**said_of)
    elif impact is not None:
        given = numbers.number(f"{owner}: impact", place, impact)
        options["change"] = None if given is None else Impact(given)
    function = numbers.function(f"{owner}: function", place, said["function"], None)
    if function is None:  # told already
        return None
    return Event(said["name"], function, **options)


def read_outputs(said: object, place: Place, numbers: Numbers, model: Model) -> dict[str, str]:
    """Named outputs: expressions of t and of the quantities of a result."""
    out: dict[str, str] = {}
    if not isinstance(said, Mapping):
        numbers.problems.add(place, f"outputs={shown(said)} is not a table of expressions.")
        return out
    known = None if numbers.problems.found else quantity_names(model)
    for name, text in said.items():
        what = f"output {name!r}"
        with numbers.problems.at((*place, name), what):
            if not isinstance(text, str):
                raise ModelError(f"{what}: {shown(text)} is not an expression, a text.")
            made = numbers.function(what, (*place, name), text, None)
            if made is not None:
                check_output(made, known)
                out[name] = made
    return out


_OF_RUN = ("energy", "drift")
_AFTERWARDS = ("reaction", "acceleration", "angular_acceleration", "effort")


def quantity_names(model: Model) -> list[str]:
    """What a result will know by name, or may: reactions and energies follow from the run."""
    has_body = any(isinstance(x, BodyItem) for x in model.items.values())
    return list(model.quantities()) if has_body else []


def check_output(text: str, known: list[str] | None) -> None:
    """Refuse an expression of objects that are not there; its quantities if these are known."""
    for path, node in Expression(text).names.items():
        full = path if node.owner is None else full_name(node)
        vector = full.rpartition(".")[0]
        if node.owner in _OF_RUN or node.name.partition(".")[0] in _AFTERWARDS:
            continue
        if known is not None and path != "t" and full not in known and vector not in known:
            raise unknown_name(text, node, ["t", *known])
    _ = Expression(text).breaks


SECTIONS = {"run": read_run, "events": read_events, "outputs": read_outputs}
