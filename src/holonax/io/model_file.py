"""Models in files: `load`, `save`, and `ModelFile`, which also knows how the model is to be run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._arguments import checked_call, checked_class, folder
from .._messages import shown
from ..model.items import ModelError
from ..model.model import Model
from .mjcf import mjcf_model
from .problems import Problems
from .reader import FORMAT, Described, content_of, parsed_file, text_of, with_entries
from .settings import RUN
from .toml_writer import toml_text
from .urdf import urdf_model
from .xml_tree import parsed_xml

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .. import Result

_SUFFIXES = (".toml", ".json")


@checked_class
@dataclass(frozen=True)
class ModelFile:
    """A model with what its file says besides: parameters, run, events and outputs.

    `model` is the `Model`, `parameters` the named numbers of the file, `run` the settings of a run
    as `Model.simulate` takes them, `events` its events, and `outputs` expressions by name.
    ``with_values({"L": 0.7, "crank.mass": 2.0})`` is the same file with other numbers: parameters
    of the file, whose arithmetic is done again, or numbers of its items.
    """

    model: Model
    parameters: dict[str, float] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    said: dict[str, Any] | None = field(default=None, repr=False)
    path: Path | None = None
    changes: dict[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def read(path: str | Path) -> ModelFile:
        """The file at a path, .toml or .json; a `FileError` has all that is wrong with it."""
        where = folder("load", "path", path)
        if where.suffix.lower() not in _SUFFIXES:
            raise ModelError(
                f"load: {shown(str(path))} is no model file; their names end in .toml or .json."
            )
        said, problems = parsed_file(where, text_of(where))
        return ModelFile._of(content_of(said, problems), said, where)

    @staticmethod
    def _of(
        content: Described,
        said: dict[str, Any],
        path: Path | None,
        changes: dict[str, Any] | None = None,
    ) -> ModelFile:
        s = content.sections
        parts = (s.get("run", {}), s.get("events", []), s.get("outputs", {}))
        return ModelFile(content.model, content.parameters, *parts, said, path, changes or {})

    def with_values(self, values: Mapping[str, ArrayLike]) -> ModelFile:
        """The same with other values of parameters of the file, or of numbers of its items; what
        was changed before stays."""
        if self.said is None:
            model = self.model.with_parameters(with_entries(self.model, values))
            return replace(self, model=model)
        values = {**self.changes, **values}
        content = content_of(self.said, Problems(self.path or "model"), values)
        return ModelFile._of(content, self.said, self.path, values)

    def simulate(self, t_end: float | None = None, **options: Any) -> Result:
        """Run as the file says; `t_end` and `options` of `Model.simulate` take precedence.

        A method or a step that is given replaces all that the file says of method and steps.
        """
        said = dict(self.run)
        chosen = ("method", "formulation", "integrator", "dt", "rtol", "atol")
        if any(options.get(x) is not None for x in chosen):
            said = {k: x for k, x in said.items() if k not in chosen}
        said = {**said, **({"events": self.events} if self.events else {}), **options}
        end = said.pop("t_end", None) if t_end is None else t_end
        said.pop("t_end", None)
        if end is None:
            raise ModelError(
                "simulate: the end of the run is missing. Give t_end [s] here, or in the section "
                "[run] of the file."
            )
        if said.get("dt") is None and said.get("rtol") is not None:
            both = ("method", "formulation", "integrator")
            if all(said.get(x) is None for x in both):
                said["method"] = "auto"
        return self.model.simulate(end, **said)


@checked_call
def load(path: str | Path) -> Model:
    """The `Model` of a file: .toml or .json as `Model.save` writes them and people do, .urdf, or
    .xml of MuJoCo (MJCF).

    Everything that is wrong with a file is told at once, in a `FileError`, with lines, names and
    what to do. Nothing in a file is run as a program: expressions are arithmetic.
    """
    where = folder("load", "path", path)
    suffix = where.suffix.lower()
    if suffix in _SUFFIXES:
        return ModelFile.read(where).model
    if suffix in (".urdf", ".xml"):
        return _robot(where)
    raise ModelError(
        f"load: {shown(str(path))} is of no kind that is known. Give a file that ends in .toml, "
        ".json, .urdf, or .xml of MuJoCo."
    )


def _robot(path: Path) -> Model:
    """The model of a URDF or MJCF file."""
    problems = Problems(path)
    root = parsed_xml(text_of(path), problems)
    if root.tag == "robot":
        return urdf_model(root, path, problems)
    if root.tag == "mujoco":
        return mjcf_model(root, path, problems)
    problems.add((), f"<{root.tag}> is neither <robot> (URDF) nor <mujoco> (MJCF).")
    problems.check()
    raise AssertionError


@checked_call
def save(model: Model, path: str | Path, *, run: Mapping[str, Any] | None = None) -> Path:
    """Write a model to a file, as .toml or .json by its name; what was there is replaced.

    Numbers are written so that `load` gives the same bits again. `run` are settings of a run, such
    as ``{"t_end": 2.0, "rtol": 1e-6}``. A model with Python functions in it is refused; expressions
    do the same and can be kept.
    """
    where = folder("save", "path", path)
    if not isinstance(model, Model):
        raise ModelError(f"save: {shown(model)} is not a Model. Give one.")
    if where.suffix.lower() not in _SUFFIXES:
        raise ModelError(f"save: {shown(str(path))} must end in .toml or .json.")
    text = model_text(model, where.suffix.lower(), run=_plain_run(run))
    try:
        write_text(where, text)
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"save: {where} cannot be written: {reason}. Choose another.") from None
    return where


def _plain_run(run: Any) -> dict[str, Any]:
    """The settings of a run as a file can hold them."""
    if run is None:
        return {}
    if not isinstance(run, Mapping) or not all(isinstance(x, str) for x in run):
        raise ModelError(f"save: run={shown(run)} is not a dictionary such as {{'t_end': 2.0}}.")
    for key, value in run.items():
        if key not in RUN:
            raise ModelError(f"save: run has no {shown(key)}. It has {', '.join(RUN)}.")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ModelError(
                f"save: run: {key}={shown(value)} cannot be kept in a file. Give numbers, names "
                "or lists."
            ) from None
    return dict(run)


def model_text(
    model: Model, suffix: str, *, run: Mapping[str, Any] | None = None, heading: str = ""
) -> str:
    """A model as the text of a file."""
    said: dict[str, Any] = {"holonax": FORMAT, **model.to_dict()}
    if run:
        items = said.pop("items")
        said |= {"run": dict(run), "items": items}
    if suffix == ".json":
        return json.dumps(said, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        return toml_text(said, heading)
    except ValueError as error:
        raise ModelError(f"save: {error}") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole, or leave what was there."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(f"save: a name in it cannot be written as UTF-8 to {path}.") from None
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
