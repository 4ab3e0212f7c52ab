"""The JSON schema of model files, from the fields of the records. It serves editors, which complete
and check while one types; `load` checks more, and says what to do.

The file `model.schema.json` beside this one is what `schema` returns.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from .._arguments import checked_call
from ..model.items import REGISTRY, Item
from .reader import FORMAT
from .settings import EVENT, RUN
from .values import SHAPES

_NUMBER: dict[str, Any] = {"$ref": "#/$defs/number"}
_NUMBERS: dict[str, Any] = {"$ref": "#/$defs/numbers"}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1}
_NAMES: dict[str, Any] = {"anyOf": [_NAME, {"type": "array", "items": _NAME}]}
_TEXT: dict[str, Any] = {"type": "string"}


@checked_call
def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of a model file, as a dictionary."""
    records = {name: _record(cls) for name, cls in REGISTRY.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holonax model",
        "description": "A mechanism of bodies, joints, drivers and forces. Units are SI.",
        "type": "object",
        "properties": {
            "holonax": {"const": FORMAT, "description": "The format of this file."},
            "gravity": {**_NUMBERS, "description": "Acceleration of free fall [m/s^2]."},
            "breaks": {**_NUMBERS, "description": "Times at which forces are not smooth [s]."},
            "parameters": {"type": "object", "additionalProperties": _NUMBER},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "name"],
                    "properties": {"type": {"enum": list(records)}},
                    "allOf": [_branch(name) for name in records],
                },
            },
            "run": _run(),
            "events": {"type": "array", "items": _event()},
            "outputs": {"type": "object", "additionalProperties": _TEXT},
        },
        "additionalProperties": False,
        "$defs": {
            "number": {
                "anyOf": [{"type": "number"}, {"type": "string"}],
                "description": "A number, or arithmetic of parameters such as '2*L'.",
            },
            "numbers": {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBERS}]},
            **records,
        },
    }


def _branch(name: str) -> dict[str, Any]:
    return {
        "if": {"properties": {"type": {"const": name}}},
        "then": {"$ref": f"#/$defs/{name}"},
    }


def _record(cls: type[Item]) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    required = [x.name for x in fields if x.default is dataclasses.MISSING]
    said = inspect.getdoc(cls) or ""
    return {
        "type": "object",
        "description": re.sub(r"\s+", " ", said.partition("\n\n")[0]),
        "properties": {"type": {"const": cls.type}} | {x.name: _field(cls, x) for x in fields},
        "required": ["type", *required],
        "additionalProperties": False,
    }


def _field(cls: type[Item], field: Any) -> dict[str, Any]:
    name = field.name
    if name == "name":
        return {**_NAME, "pattern": r"^[^.]+$"}
    if name == "bodies":
        return _NAMES
    if name in cls.displayed:
        return {"type": ["object", "array", "string"]}
    if name in cls.touches or name in cls.words:
        return _NAME
    if name == "parameters":
        return {"type": "object"} if cls.functions else {}
    if name in cls.functions:
        return {**_NUMBERS, "description": "A number, or an expression; or a list of them."}
    if name == "section":
        return {"type": ["object", "array"]}
    if name == "modes":
        return {"type": "object"}
    if name == "mass":
        return {"anyOf": [_NUMBER, _shape()]}
    if "bool" in str(field.type):
        return {"type": "boolean"}
    return _NUMBER if str(field.type).startswith("float") else _NUMBERS


def _shape() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"shape": {"enum": list(SHAPES)}},
        "required": ["shape"],
        "additionalProperties": _NUMBERS,
    }


def _run() -> dict[str, Any]:
    method = {"anyOf": [_NAME, {"type": "object", "required": ["type"]}]}
    kinds = {
        "number": _NUMBER,
        "word": _NAME,
        "names": _NAMES,
        "method": method,
        "save": {"anyOf": [{"enum": ["steps", "end"]}, _NUMBERS]},
    }
    properties = {name: kinds[kind] for name, kind in RUN.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _event() -> dict[str, Any]:
    known = {
        "name": _NAME,
        "function": _TEXT,
        "level": _NUMBER,
        "direction": {"enum": ["falling", "rising", "both"]},
        "terminal": {"type": "boolean"},
        "impact": {"anyOf": [_NUMBER, {"type": "object"}]},
        "engage": _NAMES,
        "release": _NAMES,
    }
    return {
        "type": "object",
        "properties": {name: known[name] for name in EVENT},
        "required": ["name", "function"],
        "additionalProperties": False,
    }
