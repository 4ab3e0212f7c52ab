"""Numbers of a file: said as numbers, or as arithmetic of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from .._messages import shown
from ..model.expressions import check_name
from ..model.inertia import box, cylinder, disc, point_mass, rod, sphere, tube
from ..model.items import Item, ModelError
from ..system.expression import FRAME_QUANTITIES, Expression, number, with_numbers
from .lines import Place
from .problems import Problems

if TYPE_CHECKING:
    from ..model.inertia import MassProperties

SHAPES = {f.__name__: f for f in (box, cylinder, disc, point_mass, rod, sphere, tube)}


def parameters_of(
    said: object, changes: Mapping[str, float], problems: Problems
) -> dict[str, float]:
    """The named parameters of a file, whose arithmetic may use others in any order; those that have
    no value are left out, and told."""
    if not isinstance(said, Mapping):
        problems.add(("parameters",), f"parameters={shown(said)} is not a table of numbers.")
        return {}
    known: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, value in {**said, **changes}.items():
        with problems.at(("parameters", name)):
            check_name("parameters", name)
            if isinstance(value, str):
                texts[name] = value
            else:
                known[name] = _finite(f"parameter {name!r}", value)
    wrong: set[str] = set(said) - set(known) - set(texts)
    while texts:
        names = {name: _names(text) for name, text in texts.items()}
        ready = [name for name in texts if not names[name] & (set(texts) - set(known))]
        for name in ready or list(texts):
            if not ready:
                others = ", ".join(sorted(texts))
                problems.add(
                    ("parameters", name),
                    f"parameter {name!r}: {shown(texts[name])} depends on itself, by way of "
                    f"{others}. Give one of them as a number.",
                )
            elif not names[name] & wrong:  # else that one is to blame
                with problems.at(("parameters", name), f"parameter {name!r}"):
                    known[name] = number(texts[name], known)
            if name not in known:
                wrong.add(name)
            del texts[name]
    return known


def _names(text: str) -> set[str]:
    try:
        return set(Expression(text).names)
    except ValueError:
        return set()


def _parts(text: str) -> list[tuple[str | None, str]]:
    """The names in a text, each with the object it is of; none if it cannot be read."""
    try:
        return [(x.owner, x.path) for x in Expression(text).names.values()]
    except ValueError:
        return []


def check_anywhere(text: str, parameters: Mapping[str, float]) -> None:
    """Refuse names that no driver, force or joint knows; others may be right."""
    own = (x for names in FRAME_QUANTITIES.values() for x in names)
    known = dict.fromkeys(["t", "length", "angle", "speed", *own])
    dotted = [x.path for x in Expression(text).names.values() if x.owner is not None]
    Expression(text).check([*known, *dotted, *parameters])


def _finite(owner: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{owner}: {shown(value)} is not a number. Give one, or arithmetic.")
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if not abs(found) < float("inf"):
        raise ModelError(f"{owner}: {shown(value)} is not finite. Give a finite number.")
    return found


class Numbers:
    """Values of a file with arithmetic of its parameters carried out.

    `without` are names of parameters that have no value, and `failed` names of objects that could
    not be made: what refers to them is not blamed for it, but counted as `skipped`.
    """

    def __init__(self, parameters: Mapping[str, float], without: set[str], problems: Problems):
        self.parameters, self.without, self.problems = parameters, without, problems
        self.failed: set[str] = set()
        self.skipped = 0

    def is_skipped(self, text: str) -> bool:
        """Whether a text refers to what is told of elsewhere."""
        found = _parts(text)
        skipped = any(x in self.without or owner in self.failed for owner, x in found)
        self.skipped += skipped
        return skipped

    def plain(self, owner: str, place: Place, value: object) -> Any:
        """A value, or a list of values, with texts replaced by the numbers they stand for."""
        if isinstance(value, str):
            if not self.is_skipped(value):
                with self.problems.at(place, owner):
                    return number(value, self.parameters)
            return None
        if isinstance(value, list):
            return [self.plain(f"{owner}[{i}]", place, x) for i, x in enumerate(value)]
        if isinstance(value, Mapping):
            return {k: self.plain(f"{owner}.{k}", place, x) for k, x in value.items()}
        return value

    def number(self, owner: str, place: Place, value: object) -> float | None:
        """One finite number, from itself or from arithmetic."""
        found = self.plain(owner, place, value)
        return None if found is None else _finite(owner, found)

    def function(self, owner: str, place: Place, value: Any, used: dict[str, float] | None) -> Any:
        """A field that may hold expressions; `used` gets the parameters that these name, or their
        numbers are written into the text where it is None."""
        if isinstance(value, list):
            return [self.function(owner, place, x, used) for x in value]
        if not isinstance(value, str):
            return value
        if self.is_skipped(value):
            return None
        with self.problems.at(place, owner):
            text = with_numbers(value, self.parameters, all=used is None)
            found = Expression(text).names
            if used is not None:
                used |= {x: self.parameters[x] for x in found if x in self.parameters}
            return text
        return None

    def solid(self, owner: str, place: Place, value: Mapping[str, Any]) -> MassProperties | None:
        """Mass properties from ``{ shape = "rod", length = 0.6, mass = 1.0 }``."""
        given = {str(k): x for k, x in value.items() if k != "shape"}
        shape = value.get("shape")
        if not isinstance(shape, str) or shape not in SHAPES:
            self.problems.add(
                place, f"{owner}: shape={shown(shape)} is not known. There are {', '.join(SHAPES)}."
            )
            return None
        words = {k: given.pop(k) for k in ("axis",) if isinstance(given.get(k), str)}
        numbers = {k: self.plain(f"{owner}.{k}", place, x) for k, x in given.items()}
        with self.problems.at(place):
            try:
                return SHAPES[shape](**numbers, **words)
            except (TypeError, ValueError) as error:
                raise ModelError(f"{owner}: {error}") from None
        return None

    def displayed(self, owner: str, place: Place, value: object) -> Any:
        """What a body looks like: words stay, and other texts are arithmetic."""
        if isinstance(value, list):
            return [self.displayed(owner, place, x) for x in value]
        if not isinstance(value, Mapping):
            return value
        words = ("kind", "axis", "path")
        return {
            k: x if k in words else self.plain(f"{owner}.{k}", place, x) for k, x in value.items()
        }

    def record(self, cls: type[Item], owner: str, place: Place, said: Mapping[str, Any]) -> Any:
        """The fields of a record, ready for its class; what is wrong is kept as a problem."""
        out: dict[str, Any] = {}
        used: dict[str, float] = {}
        names = {"name", *cls.touches, *cls.words}
        known = [field.name for field in fields(cls)]
        for key in (x for x in said if x in known):
            value, here, what = said[key], (*place, key), f"{owner}: {key}"
            if key in names or (key == "inertia" and value == "point"):
                out[key] = value
            elif key in cls.functions:
                out[key] = self.function(what, here, value, used if "parameters" in known else None)
            elif key in cls.displayed:
                out[key] = self.displayed(what, here, value)
            elif key == "mass" and isinstance(value, Mapping):
                out[key] = self.solid(owner, here, value)
            else:
                out[key] = self.plain(what, here, value)
        own = out.get("parameters")
        used = {k: x for k, x in used.items() if not isinstance(own, Mapping) or k not in own}
        if used and (own is None or isinstance(own, Mapping)):
            out["parameters"] = {**(own or {}), **used}
        return out
