"""A model as a co-simulation slave: this file goes into an FMU, beside the model it runs.

It is executed by the tool that imports the FMU, in a Python that has holonax. `model.json` is the
model, `unit.json` what `export_fmu` was told.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

import holonax as hx


class HolonaxModel(Fmi2Slave):
    """Takes the steps that the importing tool asks for."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        here = Path(self.resources or Path(__file__).parent)
        said = json.loads((here / "unit.json").read_text(encoding="utf-8"))
        self.description = said["description"]
        self.file = hx.io.ModelFile.read(here / "model.json")
        self.said = said
        self.values = {name: x["value"] for name, x in said["values"].items()}
        self.outputs = dict.fromkeys(said["outputs"], 0.0)
        self.system: Any = None
        self.start: Any = None
        self.began = 0.0
        for name in said["parameters"]:
            self._variable(name, Fmi2Causality.parameter, Fmi2Variability.fixed, name)
        for name in said["inputs"]:
            self._variable(name, Fmi2Causality.input, Fmi2Variability.continuous, name)
        for name in said["outputs"]:
            real = Real(
                name,
                causality=Fmi2Causality.output,
                variability=Fmi2Variability.continuous,
                getter=lambda name=name: self.outputs[name],
            )
            self.register_variable(real)

    def _variable(self, name: str, causality: Any, variability: Any, key: str) -> None:
        real = Real(
            name,
            causality=causality,
            variability=variability,
            start=self.values[key],
            getter=lambda: self.values[key],
            setter=lambda value: self.values.__setitem__(key, float(value)),
        )
        self.register_variable(real)

    def setup_experiment(
        self, start_time: float, stop_time: float | None = None, tolerance: float | None = None
    ) -> None:
        self.began = start_time

    def exit_initialization_mode(self) -> None:
        plain = dict(self.file.model.system().parameters())
        model = self.file.with_values(self._changes("item", plain)).model
        self.system, self.start = model.build(t=self.began, **self.said["build"])
        for name in self.outputs:
            value = self.system.quantity(name)(self.start.t, self.start.q, self.start.v)
            self.outputs[name] = float(value)

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

    def do_step(self, current_time: float, step_size: float) -> bool:
        system = self.system.with_parameters(self._changes("key", self.system.parameters()))
        end = current_time + step_size
        result = hx.simulate(system, self.start, end, **self.said["run"])
        if not result.success:
            self.log(result.message)
            return False
        self.start = replace(self.start, t=end, q=result.q[-1], v=result.v[-1])
        for name in self.outputs:
            self.outputs[name] = float(result.quantity(name)[-1])
        return True
