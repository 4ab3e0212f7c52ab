"""Everything that is wrong with a file, collected and told at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..model.items import ModelError
from ..system.expression_parser import ExpressionError
from .lines import Lines, Place, line_of

_FIRST = re.compile(r": (\w+)\b")


class FileProblem(NamedTuple):
    """One error: its line (None if it has none), and a sentence that names the object."""

    line: int | None
    text: str

    def __str__(self) -> str:
        return self.text if self.line is None else f"line {self.line}: {self.text}"


class FileError(ModelError):
    """A file cannot be read; `problems` has all that is wrong with it, each with its line."""

    def __init__(self, path: object, problems: list[FileProblem]):
        self.problems = sorted(problems, key=lambda x: (x.line is None, x.line or 0))
        if len(self.problems) == 1:
            super().__init__(f"{path}: {self.problems[0]}")
            return
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{path}: {len(self.problems)} errors{lines}")


@dataclass
class Problems:
    """The errors found so far in one file."""

    path: Any
    lines: Lines = field(default_factory=dict)
    found: list[FileProblem] = field(default_factory=list)

    def add(self, place: Place, text: str) -> None:
        """Keep an error of what stands at a place."""
        problem = FileProblem(line_of(self.lines, place), " ".join(text.split()))
        if problem not in self.found:
            self.found.append(problem)

    @contextmanager
    def at(self, place: Place, owner: str = "", within: Any = ()) -> Iterator[None]:
        """Keep what is raised inside, in our own words, as an error at a place; or at the key
        `within` it that the message begins with, "torque 'motor': torque=..."."""
        try:
            yield
        except ExpressionError as error:
            self.add(place, f"{owner}={error}" if owner else str(error))
        except KeyError as error:
            self.add(place, str(error.args[0]) if error.args else str(error))
        except (ModelError, ValueError, TypeError) as error:
            found = _FIRST.search(str(error))
            key = found[1] if found is not None and found[1] in within else None
            self.add(place if key is None else (*place, key), str(error))

    def check(self) -> None:
        """Raise what was found."""
        if self.found:
            raise FileError(self.path, self.found)
