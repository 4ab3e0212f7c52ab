"""A model as a co-simulation slave of FMI 3.0: this file goes into an FMU, beside the model,
and is executed by the tool that imports the FMU, in a Python that has holonax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pythonfmu3 import (
    CoSimulation,
    Float64,
    Fmi3Causality,
    Fmi3Slave,
    Fmi3Status,
    Fmi3StepResult,
    Fmi3Variability,
)

from holonax.io.fmu_unit import Unit


class HolonaxModel3(Fmi3Slave, CoSimulation):
    """Takes the steps that the importing tool asks for."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.unit = unit = Unit(Path(self.resources or Path(__file__).parent))
        self.description = unit.said["description"]
        self.time = self.began = 0.0
        continuous = Fmi3Variability.continuous
        clock = Fmi3Causality.independent
        self.register_variable(Float64("time", causality=clock, variability=continuous))
        for name in unit.said["parameters"]:
            self._variable(name, Fmi3Causality.parameter, Fmi3Variability.fixed)
        for name in unit.said["inputs"]:
            self._variable(name, Fmi3Causality.input, continuous)
        for name in unit.said["outputs"]:
            get = lambda name=name: unit.outputs[name]  # noqa: E731
            out = Fmi3Causality.output
            self.register_variable(Float64(name, causality=out, variability=continuous, getter=get))

    def _variable(self, name: str, causality: Any, variability: Any) -> None:
        values = self.unit.values
        number = Float64(
            name,
            causality=causality,
            variability=variability,
            start=values[name],
            getter=lambda: values[name],
            setter=lambda value: values.__setitem__(name, float(value)),
        )
        self.register_variable(number)

    def setup_experiment(self, start_time: float) -> None:
        self.time = self.began = start_time

    def exit_initialization_mode(self) -> None:
        self.unit.begin(self.began)

    def do_step(self, current_time: float, step_size: float) -> Any:
        wrong = self.unit.step(current_time + step_size)
        if wrong:
            self.log(wrong)
            return Fmi3StepResult(status=Fmi3Status.error)
        self.time = current_time + step_size
        return Fmi3StepResult(status=Fmi3Status.ok)
