"""What a co-simulation unit does, whichever version of FMI it speaks: it reads the model that it
was made of, is given values by name, and takes the steps that it is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import holonax as hx


class Unit:
    """The model in a folder with `model.json`, the model, and `unit.json`, what `export_fmu` was
    told; `values` are its parameters and inputs by name, `outputs` its outputs."""

    def __init__(self, folder: Path):
        self.said = json.loads((folder / "unit.json").read_text(encoding="utf-8"))
        self.file = hx.io.ModelFile.read(folder / "model.json")
        self.values = {name: x["value"] for name, x in self.said["values"].items()}
        self.outputs = dict.fromkeys(self.said["outputs"], 0.0)
        self.system: Any = None
        self.start: Any = None

    def begin(self, t: float) -> None:
        """Build the system with the present values, at the time t."""
        plain = dict(self.file.model.system().parameters())
        model = self.file.with_values(self._changes("item", plain)).model
        self.system, self.start = model.build(t=t, **self.said["build"])
        for name in self.outputs:
            value = self.system.quantity(name)(self.start.t, self.start.q, self.start.v)
            self.outputs[name] = float(value)

    def step(self, end: float) -> str:
        """Go on to a time; what went wrong, or nothing."""
        system = self.system.with_parameters(self._changes("key", self.system.parameters()))
        result = hx.simulate(system, self.start, end, **self.said["run"])
        if not result.success:
            return result.message
        self.start = replace(self.start, t=end, q=result.q[-1], v=result.v[-1])
        for name in self.outputs:
            self.outputs[name] = float(result.quantity(name)[-1])
        return ""

    def _changes(self, called: str, plain: dict[str, Any]) -> dict[str, Any]:
        """The present values, components put together, by their names in the model or system."""
        out: dict[str, Any] = {}
        for name, value in self.values.items():
            said = self.said["values"][name]
            if said["component"] is None:
                out[said[called]] = value
                continue
            changed = np.array(out.get(said[called], plain[said["key"]]), dtype=float)
            changed.reshape(-1)[said["component"]] = value
            out[said[called]] = changed
        return out
