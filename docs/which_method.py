"""Work and precision of every legal pair of methods: the measurements of docs/which-method.md.

Each pair runs each mechanism at a few step sizes; its error against a run of order 8 and the time
of the second run, which has nothing left to compile, are kept in docs/data, a file for each
mechanism. The figures and the tables of the page are drawn from them:

    python docs/which_method.py            measure what is missing, then draw
    python docs/which_method.py --draw     draw only
"""

import argparse
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np

import holonax as hx
from holonax import examples
from holonax.papers.drawing import COLOURS, MARKERS, STYLES, canvas

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
PAGE = HERE / "which-method.md"
# name: (make, end time [s], the step [s] of a method of order 4 to begin with)
MECHANISMS = {
    "slider-crank": (examples.slider_crank, 10.0, 2e-2),
    "two-link arm": (lambda: examples.two_link_arm("II"), 5.0, 1e-2),
    "pendulum with spring": (examples.pendulum_with_spring, 20.0, 2e-2),
    "car axis": (examples.car_axis, 3.0, 5e-3),
}
FAMILIES = {
    "explicit Runge–Kutta": ("Euler", "Heun", "Midpoint", "Ralston", "RK4", "Dopri5", "Dop853"),
    "Adams": ("AdamsBashforth", "AdamsMoulton", "ModifiedAdamsMoulton"),
    "Newmark family": ("Newmark", "HHT", "GeneralizedAlpha", "Rattle", "PredictorCorrector"),
    "implicit": ("ImplicitMidpoint", "Trapezoidal", "BDF", "RadauIIA"),
}
SAMPLES = 10
TARGETS = (1e-3, 1e-6, 1e-9)


def label(method):
    return type(method.formulation).__name__, type(method.integrator).__name__


def run(problem, formulation, integrator, steps):
    """A run with `steps` steps in each tenth of it; saving all of them shares one program."""
    system, start, t_end = problem
    dt = t_end / SAMPLES / steps
    return hx.simulate(system, start, t_end, dt=dt, formulation=formulation, integrator=integrator)


def error(result, exact):
    """Root mean square over ten samples of the largest error, relative to the largest value."""
    if not result.success:
        return math.nan
    parts = []
    for x, y in ((result.q, exact.q), (result.v, exact.v)):
        x, y = (z[:: (len(z) - 1) // SAMPLES][1:] for z in (x, y))
        scale = max(np.max(np.abs(y)), 1e-12)
        parts.append(np.sqrt(np.mean(np.max(np.abs(x - y), axis=1) ** 2)) / scale)
    return float(max(parts))


def first_steps(order, t_end, dt):
    """Steps in a tenth of the run to begin with: fewer for methods of higher order."""
    factor = {1: 1 / 16, 2: 1 / 4, 3: 1 / 2, 4: 1.0, 5: 1.5}.get(order, 2.0)
    return max(round(t_end / SAMPLES / (dt * factor)), 1)


def data_file(name):
    return DATA / f"work-precision-{name.replace(' ', '-')}.json"


def measured(name):
    path = data_file(name)
    return json.loads(path.read_text()) if path.exists() else {}


def measure(name):
    """Fill in the pairs that are missing, writing after each."""
    make, t_end, dt = MECHANISMS[name]
    done = measured(name)
    system, start = make()
    problem = (system, start, t_end)
    exact = None
    for method in hx.methods():
        key = "/".join(label(method))
        if key in done:
            continue
        if exact is None:
            steps = max(round(20 * t_end / SAMPLES / dt), 1)
            exact = run(problem, hx.PostStabilized("both", passes=2), hx.Dop853(), steps)
        points = []
        n = first_steps(method.orders[0], t_end, dt)
        run(problem, method.formulation, method.integrator, n)  # compiles
        for steps in n * 2 ** np.arange(5):
            pair = (problem, method.formulation, method.integrator, int(steps))
            results = [run(*pair) for _ in range(3)]
            seconds = min(r.stats["wall_time"] for r in results)
            points.append((SAMPLES * int(steps), error(results[-1], exact), seconds))
            if seconds > 0.5 or points[-1][1] < 1e-11:
                break
        done[key] = points
        print(name, key, [f"{e:.1e}/{s:.1e}s" for _, e, s in points], flush=True)
        DATA.mkdir(exist_ok=True)
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in done.items())
        data_file(name).write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line for each pair


def family(integrator):
    return next(k for k, names in FAMILIES.items() if integrator in names)


def picture(name):
    return f"work-precision-{name.replace(' ', '-')}.png"


def draw(data):
    for name, pairs in data.items():
        formulations = sorted({key.split("/")[0] for key in pairs})
        columns = 4
        rows = math.ceil(len(formulations) / columns)
        figure, axes = canvas(rows, columns, size=(11, 2.6 * rows), sharex=True, sharey=True)
        handles = {}
        for axis, formulation in zip(axes.ravel(), formulations, strict=False):
            axis.set_title(formulation, fontsize=9)
            for key, points in pairs.items():
                if not key.startswith(formulation + "/"):
                    continue
                integrator = key.split("/")[1]
                group = family(integrator)
                k = list(FAMILIES).index(group)
                j = FAMILIES[group].index(integrator)
                good = [(s, e) for _, e, s in points if e == e and e < 1]
                if good:
                    seconds, errors = zip(*good, strict=True)
                    style = {"color": COLOURS[k], "linestyle": STYLES[k], "marker": MARKERS[j]}
                    (line,) = axis.loglog(seconds, errors, markersize=3.2, linewidth=0.8, **style)
                    handles[integrator] = line
        for axis in axes.ravel()[len(formulations) :]:
            axis.set_visible(False)
        for axis in axes[-1]:
            axis.set_xlabel("time of the run [s]", fontsize=8)
        for axis in axes[:, 0]:
            axis.set_ylabel("relative error", fontsize=8)
        axes[0, 0].set_ylim(1e-12, 1)
        order = [i for names in FAMILIES.values() for i in names if i in handles]
        figure.legend(
            [handles[i] for i in order], order, loc="outside lower center", ncols=7, fontsize=8
        )
        path = HERE / "images" / picture(name)
        figure.savefig(path, dpi=130)
        print(path)


def time_to(points, target):
    """Time [s] at which the error reaches `target`, between measured points or at the next."""
    good = sorted((s, e) for _, e, s in points if e == e)
    for (s0, e0), (s1, e1) in itertools.pairwise(good):
        if e1 <= target < e0:
            share = (math.log(e0) - math.log(target)) / (math.log(e0) - math.log(e1))
            return s0 * (s1 / s0) ** share
    return good[0][0] if good and good[0][1] <= target else math.inf


def tables(data):
    """For each mechanism and accuracy the five fastest pairs, and each formulation's best."""
    lines = []
    every = len(hx.methods())
    for name, pairs in data.items():
        lines += [f"### {name}", "", f"{len(pairs)} of {every} pairs measured.", ""]
        lines += [f"![Error against time, {name}](images/{picture(name)})", ""]
        lines += ["| error | fastest pairs |", "|---|---|"]
        for target in TARGETS:
            times = sorted((time_to(points, target), key) for key, points in pairs.items())
            best = [f"{k.replace('/', ' + ')} ({t * 1e3:.3g} ms)" for t, k in times[:5] if t < 1e9]
            lines.append(f"| {target:g} | {'; '.join(best) or 'none'} |")
        lines += ["", "| formulation | best integrator for 1e-6 | time |", "|---|---|---|"]
        rows = []
        for formulation in sorted({key.split("/")[0] for key in pairs}):
            own = {k: p for k, p in pairs.items() if k.startswith(formulation + "/")}
            t, key = min((time_to(p, 1e-6), k) for k, p in own.items())
            if t < math.inf:
                rows.append((t, f"| {formulation} | {key.split('/')[1]} | {t * 1e3:.3g} ms |"))
            else:
                rows.append((t, f"| {formulation} | none within the steps tried | |"))
        lines += [row for _, row in sorted(rows)] + [""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw only")
    parser.add_argument("--only", help="one mechanism")
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else list(MECHANISMS)
    if not arguments.draw:
        for name in names:
            measure(name)
    data = {name: measured(name) for name in MECHANISMS if data_file(name).exists()}
    draw(data)
    mark = re.compile(r"(<!-- measured -->\n).*(<!-- end -->)", re.DOTALL)
    text = PAGE.read_text()
    PAGE.write_text(mark.sub(lambda m: m[1] + "\n" + tables(data) + "\n" + m[2], text))


if __name__ == "__main__":
    main()
