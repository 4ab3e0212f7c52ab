"""A model as a co-simulation slave of FMI 2.0: this file goes into an FMU, beside the model,
and is executed by the tool that imports the FMU, in a Python that has holonax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

from holonax.io.fmu_unit import Unit


class HolonaxModel(Fmi2Slave):
    """Takes the steps that the importing tool asks for."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.unit = unit = Unit(Path(self.resources or Path(__file__).parent))
        self.description = unit.said["description"]
        self.began = 0.0
        continuous = Fmi2Variability.continuous
        for name in unit.said["parameters"]:
            self._variable(name, Fmi2Causality.parameter, Fmi2Variability.fixed)
        for name in unit.said["inputs"]:
            self._variable(name, Fmi2Causality.input, continuous)
        for name in unit.said["outputs"]:
            get = lambda name=name: unit.outputs[name]  # noqa: E731
            out = Fmi2Causality.output
            self.register_variable(Real(name, causality=out, variability=continuous, getter=get))

    def _variable(self, name: str, causality: Any, variability: Any) -> None:
        values = self.unit.values
        real = Real(
            name,
            causality=causality,
            variability=variability,
            start=values[name],
            getter=lambda: values[name],
            setter=lambda value: values.__setitem__(name, float(value)),
        )
        self.register_variable(real)

    def setup_experiment(
        self, start_time: float, stop_time: float | None = None, tolerance: float | None = None
    ) -> None:
        self.began = start_time

    def exit_initialization_mode(self) -> None:
        self.unit.begin(self.began)

    def do_step(self, current_time: float, step_size: float) -> bool:
        wrong = self.unit.step(current_time + step_size)
        if wrong:
            self.log(wrong)
        return not wrong
