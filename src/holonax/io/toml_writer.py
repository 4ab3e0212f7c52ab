"""TOML as people write it: tables, and vectors on one line. Numbers are written by `repr`, so that
reading them gives the same bits again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(said: Mapping[str, Any], heading: str = "") -> str:
    """A dictionary as TOML; lists of dictionaries become arrays of tables."""
    blocks = ["".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())]
    plain = {k: v for k, v in said.items() if not isinstance(v, Mapping) and not _is_tables(v)}
    blocks.append(_pairs(plain))
    for key, value in said.items():
        if isinstance(value, Mapping):
            blocks.append(f"[{_key(key)}]\n{_pairs(value)}")
        elif _is_tables(value):
            blocks += [f"[[{_key(key)}]]\n{_pairs(entry)}" for entry in value]
    return "\n".join(block for block in blocks if block)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)


def _pairs(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(key, value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(key, x) for x in value)}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(k)} = {_value(k, x)}" for k, x in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ValueError(f"{key}: TOML has no value for {value!r}. Save the model as .json instead.")


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for the delete character; surrogates alone are in neither
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
