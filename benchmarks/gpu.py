"""Ensembles on a GPU: `make bench-gpu`.

    python -m benchmarks.gpu                  measure here, on the first GPU
    python -m benchmarks.gpu prepare FOLDER   programs and numbers for another machine; of the cases
                                              whose names follow, or of all
    python FOLDER/gpu.py measure FOLDER       measure there; needs Python, NumPy and the driver

The second way is for machines that have a GPU and not holonax. What is measured is the kernel; the
numbers that it is compared with are those of the lanes of the processor that has prepared it.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DT = 1e-3
COMPARED = 64  # runs that are
SPREAD = 0.1  # of the parameter over these


class Case(NamedTuple):
    """A mechanism, the parameter that runs differ by, the method, and how much of it."""

    build: Any
    parameter: str
    options: dict[str, Any]
    runs: int = 1 << 20
    steps: int = 1000


def planar_chain(n: int) -> tuple[Any, Any]:
    """`n` rods of 1 m and 1 kg in a row, hanging from the first by pins."""
    import holonax as hx

    model = hx.Model()
    for k in range(n):
        model.planar_body(f"rod{k}", hx.rod(1.0, mass=1.0), position=(k + 0.5, 0.0))
        before = f"rod{k - 1}" if k else "ground"
        model.revolute(f"pin{k}", before, f"rod{k}", at=(float(k), 0.0))
    return model.build()


def cases() -> dict[str, Case]:
    """What is measured, by name."""
    import holonax as hx

    from .gradients import four_bar
    from .ours import build_rods
    from .problems import chain

    rk4 = {"dt": DT}
    alpha = {"dt": DT, "formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.9)}
    slider = hx.examples.slider_crank
    planar, rods = lambda: planar_chain(10), lambda: build_rods(chain(10))
    return {
        "slider-crank, RK4": Case(slider, "m", rk4),
        "slider-crank, generalized-alpha": Case(slider, "m", alpha),
        "slider-crank, Dopri5": Case(slider, "m", {"rtol": 1e-8}),
        "four-bar, RK4": Case(four_bar, "coupler.mass", rk4),
        "four-bar, generalized-alpha": Case(four_bar, "coupler.mass", alpha),
        "planar chain of 10, RK4": Case(planar, "rod4.mass", rk4, 1 << 18, 200),
        "planar chain of 10, generalized-alpha": Case(planar, "rod4.mass", alpha, 1 << 18, 200),
        "spatial chain of 10, RK4": Case(rods, "rod4.mass", rk4, 1 << 16, 100),
        "spatial chain of 10, generalized-alpha": Case(rods, "rod4.mass", alpha, 1 << 16, 100),
    }


def prepare(folder: Path, only: tuple[str, ...] = ()) -> None:
    """PTX, numbers, and what the processor makes of them."""
    import jax

    import holonax as hx
    from holonax.compiler import cuda
    from holonax.many.gpu import kernel_of
    from holonax.many.launch import known_lanes
    from holonax.many.one_run import Ended
    from holonax.many.task import task_of

    folder.mkdir(parents=True, exist_ok=True)
    for path in (cuda.__file__, __file__):
        shutil.copy(path, folder)
    for k, (name, case) in enumerate(cases().items()):
        if only and name not in only:
            continue
        system, start = case.build()
        base = np.asarray(system.parameters()[case.parameter], dtype=float)
        values = base * (1 + SPREAD * np.linspace(0, 1, COMPARED))
        given = {"parameters": {case.parameter: values}, "t_end": case.steps * DT, **case.options}
        result = hx.ensemble(system, start, **given)
        names = inspect.signature(task_of).parameters
        usual = {"max_steps": 10**6, "events": (), "starts": start, "system": system, **given}
        task = task_of(**{name: usual.get(name) for name in names})
        one = jax.tree.map(lambda x: x[0], task.batch.own(0, 1))
        ptx, layout, _ = kernel_of(known_lanes(task.plan), task.shared, one)
        (folder / f"{k}.ptx").write_text(ptx)
        leaves = {f"s{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(task.shared))}
        np.savez(folder / f"{k}.npz", values=values, q=result.q, v=result.v, **leaves)
        said = {"name": name, "runs": case.runs, "shared": len(leaves), "layout": layout.said()}
        said["results"] = [*Ended._fields]
        (folder / f"{k}.json").write_text(json.dumps(said))


def _kinds() -> dict[str, Any]:
    out = {"f64": np.dtype(float), "f32": np.dtype("float32"), "b1": np.dtype(bool)}
    for n in (8, 16, 32, 64):
        out |= {f"i{n}": np.dtype(f"int{n}"), f"u{n}": np.dtype(f"uint{n}")}
    return out


def _driver(folder: Path) -> Any:
    """The module that talks to the driver, from the folder: holonax need not be there."""
    spec = importlib.util.spec_from_file_location("cuda", folder / "cuda.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cuda"] = module
    spec.loader.exec_module(module)
    return module


def measure(folder: Path, repeats: int = 3) -> None:
    """One line of JSON for each case: steps a second, registers, differences, drift."""
    cuda, kinds = _driver(folder), _kinds()
    gpu = cuda.driver()
    for path in sorted(folder.glob("*.json")):
        said = json.loads(path.read_text())
        given = np.load(path.with_suffix(".npz"))
        inputs, outputs = said["layout"][:2]
        begin = time.perf_counter()
        kernel = cuda.Kernel(path.with_suffix(".ptx").read_text())
        compiled = time.perf_counter() - begin
        shared = [
            np.asarray(given[f"s{i}"], dtype=kinds[inputs[i][0]]) for i in range(said["shared"])
        ]
        runs = said["runs"]
        own = np.tile(given["values"], runs // COMPARED)
        sizes = [(int(np.prod(s, dtype=int)), kinds[k], z) for k, s, z in outputs]
        best = np.inf
        with cuda.DeviceMemory(gpu) as memory:
            places = [memory.put(x) for x in (*shared, own)]
            made = [memory.empty(n * runs * kind.itemsize, zero) for n, kind, zero in sizes]
            tables = [memory.put(np.array(x, dtype=np.uint64)) for x in (places, made)]
            kernel.share(shared)
            for _ in range(repeats):
                begin = time.perf_counter()
                kernel.launch(tables[0], tables[1], runs)
                gpu("cuCtxSynchronize")
                best = min(best, time.perf_counter() - begin)
            arrays = [memory.get(p, (n, runs), kind) for p, (n, kind, _) in zip(made, sizes)]
        found = dict(zip(said["results"], arrays))  # what was observed, the last, is nothing here
        off = [float(np.max(np.abs(found[x].T[:COMPARED] - given[x]))) for x in "qv"]
        rate = found["steps"].sum() / best
        row = {
            "case": said["name"],
            "gpu": gpu.name,
            "runs": runs,
            "steps_per_s": float(f"{rate:.4g}"),
            "seconds": round(best, 4),
            "compile_s": round(compiled, 2),
            "registers": kernel.registers(),
            "local_bytes": kernel.local(),
            "differs": off,
            "drift": found["drift"].max(axis=1).tolist(),
            "failed": int(np.count_nonzero(found["code"])),
        }
        print(json.dumps(row), flush=True)


def main() -> None:
    """Prepare, measure, or both."""
    match sys.argv[1:]:
        case ["prepare", folder, *only]:
            prepare(Path(folder), tuple(only))
        case ["measure", folder]:
            measure(Path(folder))
        case _:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                measure(Path(folder))


if __name__ == "__main__":
    main()
