"""Records: what the user said of one body, joint, force or driver, as a frozen object.

A class of records is registered under the name of the model's method that makes it. From its fields
follow the method's signature, the dictionary of the record, how it is printed, and the names of its
numbers; the elements follow by `attach`, purely, so that the numbers may be traced.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer

from .._arguments import checked_call
from .._messages import listed, shown
from .._numbers import is_traced
from ..rotation import Vec2, Vec3
from .shapes import Shape

if TYPE_CHECKING:
    from .attachment import Attached, Attachment

Kind = Literal["planar", "spatial"]
Free = Literal["turn", "slide", "ball", "glide"]


class ModelError(ValueError):
    """Something in the description of a mechanism is wrong; the message names it."""


@dataclass(frozen=True)
class Item(ABC):
    """What all records share: a name, and fields that hold what was said.

    Numbers are kept as Python's, vectors and matrices as tuples; traced numbers and functions as
    they are.
    """

    type: ClassVar[str]  # the model's method that makes it
    noun: ClassVar[str]  # what messages call it
    touches: ClassVar[tuple[str, ...]] = ()  # the fields that name bodies
    kinds: ClassVar[tuple[Kind, ...]] = ("planar", "spatial")  # of bodies it is for
    free: ClassVar[tuple[Free, ...]] = ()  # what a joint leaves free
    discrete: ClassVar[tuple[str, ...]] = ()  # the fields that are no physical numbers
    words: ClassVar[tuple[str, ...]] = ()  # the fields that hold names or words
    functions: ClassVar[tuple[str, ...]] = ()  # those that hold functions, or texts of them
    displayed: ClassVar[tuple[str, ...]] = ()  # the fields that are for pictures only
    sees_states: ClassVar[bool] = False  # whether states may be among the bodies it names
    measures: ClassVar[tuple[str, ...]] = ()  # "turn", "slide", "length"; else what is left free

    name: str

    def __post_init__(self) -> None:
        for name, value in self._said():
            if name != "parameters":  # which belong to a user's function, whatever their type
                object.__setattr__(self, name, plain(value))

    @property
    def owner(self) -> str:
        """What messages begin with."""
        return f"{self.noun} {shown(self.name)}"

    def _said(self) -> Iterator[tuple[str, Any]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def numbers(self) -> dict[str, Any]:
        """The physical numbers and vectors that were said, by field; parameters as they are."""
        known = ((k, v) for k, v in self._said() if k not in self.discrete and v is not None)
        return {name: x for name, x in known if name == "parameters" or _is_number(x)}

    def structure(self) -> tuple[Any, ...]:
        """What it says besides numbers."""
        aside = {*self.numbers(), *self.displayed}
        said = ((name, x) for name, x in self._said() if name not in aside)
        return tuple((name, x if _is_plain(x) else repr(x)) for name, x in said)

    def changed(self, **changes: Any) -> Any:
        """This record with other values of some fields."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ModelError(
                    f"{self.owner}: it has no {name!r}. What it has is {listed(known, 20)}."
                )
        return dataclasses.replace(self, **changes)

    # -- dictionaries ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of strings, numbers and lists; without what is default."""
        out: dict[str, Any] = {"type": self.type}
        for field in fields(self):
            value = getattr(self, field.name)
            if not _is_default(field, value):
                out[field.name] = self._listed(field.name, value)
        return out

    def _listed(self, name: str, value: object) -> Any:
        if isinstance(value, (tuple, list)):
            return [self._listed(name, x) for x in value]
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {key: self._listed(name, x) for key, x in value.items()}
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        if isinstance(value, Shape):
            return value.to_dict()
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        what = "a Python function" if callable(value) else f"{shown(value)}"
        raise ModelError(
            f"{self.owner}: its {name} is {what}, which a dictionary cannot hold. Give a number "
            "instead, or keep this part of the description in Python."
        )

    @staticmethod
    def from_dict(said: object) -> Item:
        """The record of a dictionary made by `to_dict`, or written by hand."""
        if not isinstance(said, Mapping):
            raise ModelError(f"Model: {shown(said)} is not a dictionary of an object.")
        given = dict(said)
        kind, name = given.pop("type", None), given.get("name")
        make = REGISTRY.get(kind) if isinstance(kind, str) else None
        if make is None:
            raise ModelError(
                f"object {shown(name)}: its type {shown(kind)} is not known. The types are "
                f"{listed(REGISTRY, 60)}."
            )
        known = {field.name: field for field in fields(make)}
        unknown = [x for x in given if x not in known]
        if unknown:
            raise ModelError(
                f"{make.noun} {shown(name)}: it has no {shown(unknown[0])}. What it has is "
                f"{listed(known, 20)}."
            )
        missing = [
            x for x, f in known.items() if x not in given and f.default is dataclasses.MISSING
        ]
        if missing:
            raise ModelError(f"{make.noun} {shown(name)}: {listed(missing)} is missing. Give it.")
        return make(**given)

    def __repr__(self) -> str:
        """As the user would write it."""
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING and not field.kw_only:
                words.append(_written(value))
            elif not _is_default(field, value) and field.name not in self.displayed:
                words.append(f"{field.name}={_written(value)}")
        return f"{self.type}({', '.join(words)})"


@dataclass(frozen=True, repr=False)
class Connector(Item):
    """A record of something that acts between bodies: a joint, a driver or a force."""

    def connected(self, joints: Mapping[str, Attached]) -> tuple[str, ...]:
        """The names of the bodies it connects; `joints` are those described so far."""
        given = (getattr(self, name) for name in self.touches)
        return tuple(name for x in given for name in (x if isinstance(x, tuple) else (x,)))

    def own_states(self) -> dict[str, Any]:
        """The states of first order that it has itself, by name, and where they start."""
        return {}

    def state_unit(self, state: str) -> str:
        """The unit of one of these."""
        return ""

    @abstractmethod
    def attach(self, there: Attachment) -> Attached:
        """The elements it becomes, and where it sits; a pure function of the numbers."""


@dataclass(frozen=True, repr=False)
class PointPair(Connector):
    """A record of something at points of two bodies."""

    touches: ClassVar[tuple[str, ...]] = ("a", "b")

    a: Any
    b: Any
    _: KW_ONLY
    at: Any = None
    at_a: Any = None
    at_b: Any = None


@dataclass(frozen=True, repr=False)
class JointItem(Connector):
    """A record of a joint or driver: something with constraint rows."""


@dataclass(frozen=True, repr=False)
class OnJoint(Connector):
    """A record that may name the joint it works on instead of bodies, points and axes.

    `needs` is what the joint must leave free, some of it; `verb` is what messages say.
    """

    words: ClassVar[tuple[str, ...]] = ("joint",)
    needs: ClassVar[tuple[Free, ...]] = ()
    verb: ClassVar[str] = "act on"

    def connected(self, joints: Mapping[str, Attached]) -> tuple[str, ...]:
        found = self.on(joints)
        return super().connected(joints) if found is None else found.bodies

    def on(self, joints: Mapping[str, Attached]) -> Attached | None:
        """The joint it names; None where it is given by bodies."""
        joint = getattr(self, "joint")  # noqa: B009  where the field stands is for each to say
        given = [x for x in (*self.touches, *_PLACES) if getattr(self, x, None) is not None]
        if joint is None:
            if any(getattr(self, x) is None for x in self.touches):
                raise ModelError(
                    f"{self.owner}: what it {self.verb}s is missing. Give joint= (a joint's name) "
                    "or two bodies."
                )
            return None
        if given:
            raise ModelError(
                f"{self.owner}: the joint {shown(joint)} brings its bodies, point and axis. Leave "
                f"them out: {', '.join(f'{x}=' for x in given)}."
            )
        found = joints.get(joint) if isinstance(joint, str) else None
        if found is None:
            known = listed(joints) or "none yet"
            raise ModelError(
                f"{self.owner}: there is no joint {shown(joint)}. The joints are {known}."
            )
        if not set(self.needs) & set(found.item.free):
            able = [x.noun for x in REGISTRY.values() if set(self.needs) & set(x.free)]
            raise ModelError(
                f"{self.owner}: {joint!r} is a {found.item.noun}, which it cannot {self.verb}. "
                f"Name a {' or '.join(able)}."
            )
        return found


_PLACES = ("at", "at_a", "at_b", "axis", "axis_a", "axis_b")
REGISTRY: dict[str, type[Item]] = {}
_Record = TypeVar("_Record", bound=type)


@dataclass_transform(frozen_default=True)
def record(type: str, noun: str) -> Callable[[_Record], _Record]:
    """Register a class of records: `type` is the model's method, `noun` the word in messages."""

    def made(cls: type) -> Any:
        cls = dataclass(frozen=True, repr=False)(cls)
        cls.type, cls.noun = type, noun
        cls.__init__ = checked_call(cls.__init__)
        REGISTRY[type] = cls
        return cls

    return made


def plain(value: object) -> Any:
    """`value` with numbers as Python's and arrays as tuples, so that nobody changes it later."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return plain(np.asarray(value).tolist())
    if isinstance(value, (tuple, list, Vec2, Vec3)):
        return tuple(plain(x) for x in value)
    return value


def _is_plain(x: object) -> bool:
    return x is None or isinstance(x, (str, bool, int, float)) or callable(x)


def _is_default(field: Any, value: object) -> bool:
    default = field.default
    if value is default:
        return True
    simple = isinstance(default, (str, bool, float, tuple)) and type(value) is type(default)
    return simple and not is_traced(value) and value == default


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, (int, float, Tracer)) and not isinstance(value, bool)


def _written(value: object) -> str:
    name = getattr(value, "__name__", None)
    return name if callable(value) and name else shown(value)
