"""Models opened by name, changed, run with progress, and what is told and written of a run."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import holonax as hx
from holonax.io.columns import table_columns
from holonax.run.by_name import options_by_name

_FILES = (".toml", ".json", ".urdf", ".xml")


@dataclass(frozen=True)
class Opened:
    """A model to be run: of a file or a ready mechanism, or a system with its start."""

    name: str
    file: hx.ModelFile | None = None
    system: Any = None
    start: Any = None

    def changed(self, values: Mapping[str, float]) -> Opened:
        """The same with other numbers."""
        if not values:
            return self
        if self.file is not None:
            return replace(self, file=self.file.with_values(values))
        known = self.system.parameters()
        for name in values:
            if name not in known:
                raise ValueError(f"--set: {self.name} has no {name!r}; it has {', '.join(known)}.")
        system = self.system.with_parameters(**values)
        return replace(self, system=system, start=hx.consistent(system, self.start.q, self.start.v))

    def built(self) -> tuple[Any, Any]:
        """The system and a consistent start."""
        if self.file is None:
            return self.system, self.start
        keep = ("t", "hold", "hold_velocity", "released", "solver")
        return self.file.model.build(**{k: x for k, x in self.file.run.items() if k in keep})

    def end(self, t_end: float | None) -> float:
        """When the run ends [s]: as given, as the file or the ready mechanism says."""
        if t_end is not None:
            return t_end
        if self.file is None:
            return hx.examples.run_of(self.name)["t_end"]
        said = self.file.run.get("t_end")
        if said is None:
            raise ValueError(f"{self.name} does not say when its run ends. Give --t-end [s].")
        return said

    def simulate(self, t_end: float | None, options: Mapping[str, Any], **more: Any) -> Any:
        """Run it; without options as the file says, or by a method that the motion chooses."""
        end = self.end(t_end)
        if self.file is not None:
            return self.file.simulate(end, **options, **more)
        return hx.simulate(self.system, self.start, end, **(options or {"method": "auto"}), **more)

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs that the file names."""
        return {} if self.file is None else self.file.outputs


def names_of_examples() -> list[str]:
    """The ready mechanisms."""
    return [name for name in hx.examples.__all__ if name not in ("file_text", "model_of", "run_of")]


def opened(model: str) -> Opened:
    """A model file, or a ready mechanism."""
    path = Path(model)
    if path.suffix.lower() in (".toml", ".json"):
        return Opened(path.stem, hx.ModelFile.read(path))
    if path.suffix.lower() in _FILES:
        return Opened(path.stem, hx.ModelFile(hx.load(path), path=path))
    if model in names_of_examples():
        return ready(model)
    known = ", ".join(names_of_examples())
    hint = "It ends in .toml, .json, .urdf or .xml" if path.exists() else "There is no such file"
    raise ValueError(f"{model!r} is no model. {hint}; ready mechanisms are {known}.")


def ready(name: str) -> Opened:
    """A ready mechanism; with its model, where it has one that is what the name means."""
    if name not in names_of_examples():
        known = ", ".join(names_of_examples())
        raise ValueError(f"simulate: there is no example {name!r}; there are {known}.")
    try:
        if name == "andrews":  # in angles, as in Python
            raise ValueError
        model, options = hx.examples.model_of(name)
    except ValueError:
        system, start = getattr(hx.examples, name)()
        return Opened(name, system=system, start=start)
    run = hx.examples.run_of(name)
    both = (run.pop("formulation", None), run.pop("integrator", None))
    if any(both):
        run |= options_by_name(*both, dt=run["dt"])
    return Opened(name, hx.ModelFile(model, run={**run, **options}))


def changes(given: list[str] | None) -> dict[str, float]:
    """Numbers by name from NAME=VALUE, where the value may be arithmetic."""
    out: dict[str, float] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"--set {text!r} is not understood. Write NAME=VALUE: crank.mass=2.")
        try:
            out[name.strip()] = float(value)
        except ValueError:
            raise ValueError(f"--set {text!r}: {value!r} is not a number.") from None
        if not math.isfinite(out[name.strip()]):
            raise ValueError(f"--set {text!r}: the value is not finite.")
    return out


def method_options(
    method: str | None,
    formulation: str | None,
    integrator: str | None,
    dt: float | None,
    rtol: float | None,
) -> dict[str, Any]:
    """The options of `simulate` for methods by name; none where nothing is given."""
    if method is not None and (formulation or integrator):
        raise ValueError("--method names both halves. Leave --formulation and --integrator out.")
    if method is not None and method != "auto":
        formulation, integrator = method_names(method)
    if method == "auto":
        if dt is not None:
            raise ValueError("--method auto chooses its steps. Give --rtol instead of --dt.")
        return {"method": "auto", "rtol": rtol} if rtol is not None else {"method": "auto"}
    if formulation is None and integrator is None and dt is None and rtol is None:
        return {}
    if formulation is None and integrator is None and dt is None:
        return {"method": "auto", "rtol": rtol}
    found = options_by_name(formulation, integrator, dt=dt, rtol=rtol)
    return {name: x for name, x in found.items() if x is not None}


def method_names(method: str) -> tuple[str | None, str | None]:
    """(formulation, integrator) of a name of one, or of both with a slash or a plus between."""
    first, *second = (x.strip() for x in re.split(r"[/+](?![^()]*\))", method, maxsplit=1))
    if second:
        return first, second[0]
    reasons = []
    for names in ((None, first), (first, None)):
        try:
            options_by_name(*names, dt=1.0)
            return names
        except ValueError as error:
            reasons.append(str(error).removeprefix("simulate: "))
    raise ValueError(f"--method {method!r}: {' '.join(reasons)} Or give auto, or Baumgarte/RK4.")


def simulated(opened: Opened, t_end: float | None, options: Any, *, quiet: bool) -> Any:
    """A run, with a bar on a terminal that shows compiling and running apart."""
    if quiet or not sys.stderr.isatty():
        return opened.simulate(t_end, options)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bars:
        compiling = bars.add_task("building and compiling", total=None)
        running = bars.add_task("running", total=1.0, visible=False)

        def report(now: Any) -> None:
            if now.steps:
                bars.update(compiling, total=1.0, completed=1.0, visible=False)
                share = now.t / now.t_end if now.t_end else 1.0
                steps = f"running, t = {now.t:.4g} s, {now.steps} steps"
                bars.update(running, completed=share, visible=True, description=steps)

        return opened.simulate(t_end, options, progress=report)


def reported(
    result: Any,
    opened: Opened,
    out: list[Path],
    quantities: list[str],
    plot: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Tell how a run went and write what was asked for; the exit status."""
    wanted = outputs_of(quantities) or opened.outputs
    for path in out:
        hx.io.write_table(result, path, wanted)
    if plot is not None:
        drawn(result, plot, None, opened.name)
    written = [*out, *([plot] if plot is not None else [])]
    if as_json:
        print(json.dumps(summary(result, wanted, written)))
    elif not quiet:
        print(result)
        for path in written:
            print(path)
    if not result.success and (quiet or as_json):
        print(f"holonax: {result.message}", file=sys.stderr)
    return 0 if result.success else 1


def outputs_of(quantities: list[str]) -> dict[str, str]:
    """Outputs from NAME=EXPRESSION, or from names of quantities."""
    out: dict[str, str] = {}
    for text in quantities:
        name, sign, expression = text.partition("=")
        named = bool(sign) and not expression.startswith("=") and name[-1:] not in "<>!"
        out[name.strip() if named else text] = expression if named else text
    return out


def summary(result: Any, outputs: Mapping[str, str], written: list[Path]) -> dict[str, Any]:
    """A run as one JSON object."""
    position, velocity = result.drift()
    last = {
        name: float(values[-1])
        for name, values in table_columns(result, outputs).items()
        if np.isfinite(values[-1])
    }
    return {
        "success": bool(result.success),
        "status": result.status,
        "message": result.message,
        "t_end": float(result.t[-1]),
        "steps": int(result.stats["steps"]),
        "formulation": repr(result.formulation),
        "integrator": repr(result.integrator),
        "seconds": {
            "running": running_seconds(result),
            "compiling": float(result.stats.get("compile_time", 0.0)),
        },
        "drift": {"position": float(np.max(position)), "velocity": float(np.max(velocity))},
        "events": [{"name": x.name, "t": float(x.t)} for x in result.events],
        "end": last,
        "written": [str(path) for path in written],
    }


def running_seconds(result: Any) -> float:
    """The seconds of a run less those of compiling."""
    compiling = result.stats.get("compile_time", 0.0)
    return max(float(result.stats["wall_time"]) - float(compiling), 0.0)


def drawn(result: Any, path: Path, signals: list[str] | None, title: str) -> None:
    """A picture of a result."""
    hx.plot(result, signals, title=title).savefig(path)


def list_examples() -> None:
    """Print the ready mechanisms, each with what it is."""
    for name in names_of_examples():
        print(f"{name:26} {(getattr(hx.examples, name).__doc__ or '').strip().splitlines()[0]}")


def copied(name: str, path: Path | None, force: bool) -> Path:
    """The file of a ready mechanism, written; where it is."""
    model, options = hx.examples.model_of(name)
    target = Path(f"{name}.toml") if path is None else path
    if target.is_dir():
        target = target / f"{name}.toml"
    if target.exists() and not force:
        raise ValueError(f"{target} is there already. Give another name, or --force to replace it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handmade = hx.examples.file_text(name) if target.suffix.lower() == ".toml" else None
    if handmade is not None:
        target.write_text(handmade, encoding="utf-8")
    else:
        model.save(target, run={**hx.examples.run_of(name), **options})
    return target
