"""A model for other simulators: an FMU for co-simulation (FMI 2.0 or 3.0)."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from .._arguments import checked_call, choice, folder, names
from .._messages import listed, shown, unknown_name
from .._optional import require
from .._places import NumberPlace, places
from ..model.items import ModelError
from ..model.model import Model
from .model_file import model_text

_OWNER = "export_fmu"
# The library that writes each version, and the script that it puts into the unit.
_VERSIONS = {"2.0": "fmu_slave.py", "3.0": "fmu3_slave.py"}


@checked_call
def export_fmu(
    model: Model,
    path: str | Path,
    *,
    outputs: Sequence[str],
    inputs: Sequence[str] = (),
    parameters: Sequence[str] = (),
    dt: float | None = None,
    rtol: float = 1e-6,
    build: Mapping[str, Any] | None = None,
    description: str = "",
    fmi: Literal["2.0", "3.0"] = "2.0",
) -> Path:
    """Write a model as a unit for co-simulation to `path` (.fmu), and return that path.

    The importing tool takes steps; within each, the motion is integrated with steps of its own,
    equal ones of `dt` [s] at most or by their error, `rtol`. The unit holds the model, and runs it
    in a Python that has holonax: on Linux and Windows the one that the importing tool finds.
    Writing it needs pythonfmu, for FMI 3.0 pythonfmu3.

    **Arguments:**

    - `outputs`: quantities by name, numbers: ``"A.angle"``, ``"slider.position.x"``.
    - `inputs`: parameters of the model that the tool may change at every step: of a force with
      ``parameters=``, say. A component of a vector is named with its number, ``"pull.force.0"``.
    - `parameters`: those that it may change before the start: ``"crank.mass"``.
    - `build`: what `Model.build` is given, ``{"hold": ["crank"]}``.
    - `description`: a line about it.
    - `fmi`: the version of the standard.

    A model with Python functions in it cannot be written; expressions do the same.
    """
    slave = _VERSIONS[choice(_OWNER, "fmi", fmi, tuple(_VERSIONS))]
    if fmi == "3.0":
        builder = require("pythonfmu3.builder").FmuBuilder
    else:
        builder = require("pythonfmu.builder").FmuBuilder
    target = folder(_OWNER, "path", path)
    if not isinstance(model, Model):
        raise TypeError(f"{_OWNER}: {shown(model)} is not a Model. Give one.")
    if target.suffix != ".fmu" or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", target.stem):
        raise ValueError(
            f"{_OWNER}: {target.name!r} must be a name of letters, digits and _ that ends in .fmu."
        )
    told = {
        "outputs": list(names(_OWNER, "outputs", outputs)),
        "inputs": list(names(_OWNER, "inputs", inputs)),
        "parameters": list(names(_OWNER, "parameters", parameters)),
    }
    every = [name for group in told.values() for name in group]
    if len(set(every)) < len(every) or not told["outputs"]:
        raise ValueError(f"{_OWNER}: name at least one output, and nothing twice: {listed(every)}.")
    values = _values(model, [*told["inputs"], *told["parameters"]])
    system, _ = model.build(**dict(build or {}))
    for name in told["outputs"]:
        if system.named_quantity(_OWNER, name).labels:
            raise ValueError(f"{_OWNER}: {name!r} is a vector. Name a component: '{name}.x'.")
    said = {
        **told,
        "values": values,
        "run": {"dt": dt} if dt is not None else {"rtol": rtol},
        "build": dict(build or {}),
        "description": description or f"{target.stem}, a mechanism by holonax",
    }
    with tempfile.TemporaryDirectory() as scratch:
        where = Path(scratch)
        script = files(__name__.rpartition(".")[0]).joinpath(slave)
        text = script.read_text(encoding="utf-8")
        # the class gives the unit its name
        main = where / f"{target.stem}.py"
        main.write_text(re.sub(r"class HolonaxModel3?\(", f"class {target.stem}(", text), "utf-8")
        parts = {"model.json": model_text(model, ".json"), "unit.json": json.dumps(said)}
        for name, content in parts.items():
            (where / name).write_text(content, encoding="utf-8")
        # the unit is imported from here, to be described; another module may have its name, such as
        # a unit that was run in this process
        path_before, other = list(sys.path), sys.modules.pop(target.stem, None)
        try:
            made = builder.build_FMU(main, dest=where, project_files=[where / x for x in parts])
        finally:
            sys.path[:] = path_before
            sys.modules.pop(target.stem, None)
            if other is not None and not hasattr(other, target.stem):  # not an older unit
                sys.modules[target.stem] = other
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(made).read_bytes())
    return target


def _values(model: Model, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """Each parameter by name: its own `value`, what it is called in the model (`item`) and in the
    system (`key`), and which component it is."""
    known = places(model.parameters())
    for name in wanted:
        if name not in known:
            raise ModelError(unknown_name(_OWNER, "parameter", name, list(known)))
    return {name: _said(known[name]) for name in wanted}


def _said(place: NumberPlace) -> dict[str, Any]:
    key = place.whole if place.entry is None else f"{place.whole}.{place.entry}"
    return {"value": place.value, "item": place.name, "key": key, "component": place.component}
