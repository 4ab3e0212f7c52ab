"""XML as a tree that knows its lines, for URDF and MJCF. Documents that define entities or a type
are refused: they can grow without end, and neither format needs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

import numpy as np

from .._messages import shown
from ..model.items import ModelError
from .problems import FileProblem, Problems

_DEEPEST = 200


@dataclass
class XmlElement:
    """A tag with its attributes, what is inside, and its line."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[XmlElement] = field(default_factory=list)

    def all(self, tag: str) -> list[XmlElement]:
        """What is directly inside, of that tag."""
        return [x for x in self.children if x.tag == tag]

    def first(self, tag: str) -> XmlElement | None:
        """The first of them, if any."""
        return next(iter(self.all(tag)), None)

    def numbers(self, name: str, count: int, default: Any = None) -> Any:
        """An attribute of so many finite numbers with spaces between, as an array."""
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                raise ModelError(f"<{self.tag}>: {name} is missing. Give {count} numbers.")
            return np.array(default, float)
        try:
            found = np.array([float(x) for x in text.split()])
        except ValueError:
            found = np.zeros(0)
        if found.size != count or not np.all(np.isfinite(found)):
            raise ModelError(
                f"<{self.tag}>: {name}={shown(text)} must be {count} finite numbers with spaces "
                "between."
            )
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is one finite number."""
        return float(self.numbers(name, 1, None if default is None else [default])[0])

    def word(self, name: str, default: str | None = None) -> str:
        """An attribute that is a word."""
        found = self.attributes.get(name, default)
        if found is None or not found.strip():
            raise ModelError(f"<{self.tag}>: its {name} is missing. Give it.")
        return found


class _Refused(Exception):
    pass


def parsed_xml(text: str, problems: Problems) -> XmlElement:
    """The root of a document; what is wrong with it is raised as a `FileError`."""
    stack = [XmlElement("", {}, 0)]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise _Refused("it is nested too deeply.")
        made = XmlElement(tag, attributes, parser.CurrentLineNumber)
        stack[-1].children.append(made)
        stack.append(made)

    def end(tag: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise _Refused("it defines a document type or entities, which are not read. Remove them.")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except _Refused as error:
        problems.found.append(FileProblem(parser.CurrentLineNumber, str(error)))
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        problems.found.append(FileProblem(error.lineno, f"this is not XML: {reason}. Correct it."))
    problems.check()
    return stack[0].children[0]


def rotation_rpy(angles: np.ndarray) -> np.ndarray:
    """The matrix of roll, pitch and yaw about fixed axes x, y, z."""
    r, p, y = (turn(axis, angle) for axis, angle in zip(np.eye(3), angles, strict=True))
    return y @ p @ r


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """The matrix of a rotation about a unit vector."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
