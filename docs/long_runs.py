"""Energy, momentum and drift over a million steps, per method: the table of docs/runs.md.

python docs/long_runs.py           measure what is missing, then write the table
"""

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np

import holonax as hx

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "long-runs.json"
PAGE = HERE / "runs.md"
STEPS, DT = 10**6, 1e-3


def tumbling():
    """Two links joined by a pin, free of gravity."""
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body(
        "first", hx.rod(1.0, mass=1.0), position=(0.5, 0.0), velocity=(0.0, 0.3), angular_velocity=1
    )
    model.planar_body(
        "second", hx.rod(0.6, mass=0.5), position=(1.0, 0.3), angle=np.pi / 2, angular_velocity=-1
    )
    model.revolute("pin", "first", "second", at=(1.0, 0.0))
    return model.build()


def cross_section():
    """Each formulation with its own integrator, each integrator with one formulation, the quick
    ones first: implicit methods with the scaled index 3 where they take it."""
    order = ["PostStabilized", "Index3", "GGL"]
    quick = {"ode": 0, "staggered": 0, "index3": 1}

    def rank(method):
        name = type(method.formulation).__name__
        implicit = "index3" in type(method.integrator).accepts
        preferred = ["Index3", *order] if implicit else order
        return preferred.index(name) if name in preferred else len(preferred)

    best = {}
    for method in hx.methods():
        name = type(method.integrator).__name__
        if name not in best or rank(method) < rank(best[name]):
            best[name] = method
    own = [
        m
        for m in hx.methods()
        if m.formulation.default_integrator[0] == type(m.integrator).__name__
        and m not in best.values()
    ]
    return sorted([*best.values(), *own], key=lambda m: quick.get(m.formulation.kind, 2))


def known():
    """What has been measured."""
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def measure():
    """Fill in what is missing, writing after each method."""
    done = known()
    system, start = tumbling()
    for method in cross_section():
        key = f"{type(method.formulation).__name__} + {type(method.integrator).__name__}"
        if key in done:
            continue
        began = time.perf_counter()
        run = hx.simulate(
            system,
            start,
            STEPS * DT,
            dt=DT,
            formulation=method.formulation,
            integrator=method.integrator,
            save=STEPS // 1000,
        )
        linear, angular = run.momentum()
        kinetic = run.energy.kinetic

        def change(x):
            return float(np.max(np.abs(x - x[0])) / np.max(np.abs(x[0])))

        done[key] = {
            "success": run.success,
            "status": run.status,
            "t": float(run.t[-1]),
            "energy": change(kinetic),
            "momentum": change(linear),
            "moment": change(angular),
            "drift": [float(x.max()) for x in run.drift()],
            "seconds": time.perf_counter() - began,
        }
        print(key, done[key], flush=True)
        lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in done.items())
        DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return done


def table(done):
    lines = [
        "| method | energy | momentum | moment of momentum | \\|g\\| | \\|g'\\| | |",
        "|---|---|---|---|---|---|---|",
    ]
    for key, row in sorted(done.items(), key=lambda item: item[1]["energy"]):
        note = "" if row["success"] else f"stopped at {row['t']:.3g} s: {row['status']}"
        numbers = [row["energy"], row["momentum"], row["moment"], *row["drift"]]
        cells = " | ".join(f"{x:.0e}" for x in numbers)
        lines.append(f"| {key} | {cells} | {note} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="write the table only")
    done = known() if parser.parse_args().table else measure()
    mark = re.compile(r"(<!-- measured -->\n).*(<!-- end -->)", re.DOTALL)
    PAGE.write_text(mark.sub(lambda m: m[1] + "\n" + table(done) + "\n\n" + m[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
