"""holonax, through its public call `simulate`, on every work."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# compile times are measured; fresh processes are given a cache of their own
os.environ["HOLONAX_CACHE"] = "off"

import holonax as hx
from holonax_cli.running import names_of_examples

from . import fresh
from .first_answer import ANSWERS, MECHANISMS
from .gpu import planar_chain
from .gradients import four_bar, gradients
from .many import ensembles, many_slider_cranks
from .measure import Recorder, peak_memory, tool_main, version_of
from .problems import (
    RHO,
    STEP,
    Andrews,
    Beam,
    BeamNet,
    Cable,
    FourBars,
    Gyroscope,
    Rods,
    SliderCrank,
    SpatialSliderCrank,
    StiffChain,
    chain,
    net,
    tree,
)

Options = dict[str, Any]

GENERALIZED_ALPHA = f"generalized-alpha index 3, rho={RHO}"
ON_INDEX_3 = {"BDF(2), index 3": hx.BDF(2), "RadauIIA(3), index 3": hx.RadauIIA(3)}
PROJECTED_RK4 = "RK4 + projection (both, 2 passes)"


def method(name: str) -> Options:
    """The formulation and integrator of the comparisons per step."""
    if name in ON_INDEX_3:
        return {"formulation": hx.Index3(), "integrator": ON_INDEX_3[name]}
    if name == GENERALIZED_ALPHA:
        return {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(RHO)}
    return {"formulation": hx.PostStabilized("both", passes=2), "integrator": hx.RK4()}


def run(system: Any, start: Any, t_end: float, **options: Any) -> hx.Result:
    """`hx.simulate`, which must succeed."""
    result = hx.simulate(system, start, t_end, **{"save": "end", **options})
    if not result.success:
        raise RuntimeError(result.message)
    return result


def fill(system: Any) -> int:
    """Blocks of the factor of Newton's matrix that are zero in the matrix itself.

    Small mechanisms are solved with one dense matrix or in scalars, which have no such blocks.
    """
    plans = [system.bodies.tangent]
    solvers = [plan.schur.solver if plan.alone else plan.together for plan in plans]
    return sum(0 if solver is None else solver.fill for solver in solvers)


# -- models -------------------------------------------------------------------------------------


def build_rods(rods: Rods) -> tuple[Any, Any]:
    """Rods on spherical joints."""
    model = hx.Model(gravity=(0, 0, -rods.gravity))
    shape = hx.box((rods.length, rods.width, rods.width), mass=rods.mass)
    for i, (centre, heading) in enumerate(zip(rods.centres, rods.headings)):
        c, s = np.cos(heading), np.sin(heading)
        rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        model.body(f"rod{i}", shape, position=centre, rotation=rotation)
    named = lambda i: "ground" if i < 0 else f"rod{i}"  # noqa: E731
    for k, (a, b, point) in enumerate(rods.joints):
        model.spherical(f"ball{k}", named(a), named(b), at=point)
    return model.build()


def build_stiff_chain(n: int) -> tuple[Any, Any]:
    """Planar rods on hinges with torsion springs."""
    p = StiffChain
    model = hx.Model(gravity=(0, -p.gravity))
    previous: Any = "ground"
    for i in range(n):
        at = (i * p.length, 0.0)
        centre = (at[0] + 0.5 * p.length, 0.0)
        rod = model.planar_body(f"rod{i}", p.mass, p.inertia, position=centre)
        model.revolute(f"hinge{i}", previous, rod, at=at)
        spring = {"stiffness": p.stiffness, "damping": p.damping}
        model.torsion_spring(f"spring{i}", previous, rod, **spring)
        previous = rod
    return model.build()


def stiff_chain_places(result: hx.Result) -> np.ndarray:
    """Where the first rods are at the end of the run."""
    return np.stack([result[f"rod{i}"].position[-1] for i in range(StiffChain.watched)])


def beam_section() -> hx.Section:
    """That of all beams."""
    p = Beam
    return hx.Section(EA=p.EA, GA=p.GA, GJ=p.GJ, EI=p.EI, mass=p.mass, inertia=p.inertia)


def build_beam(n: int) -> tuple[Any, Any]:
    """A cantilever of `n` elements of two nodes."""
    p = Beam
    model = hx.Model(gravity=(0, 0, -p.gravity))
    end = (p.length, 0, 0)
    model.beam("beam", (0, 0, 0), end, section=beam_section(), up=(0, 0, 1), elements=n)
    model.fixed("root", "ground", "beam.start")
    return model.build()


def build_cable(n: int) -> tuple[Any, Any]:
    """A line of `n` elements of two nodes."""
    model = hx.Model(gravity=(0, 0, -Beam.gravity))
    ends = (0, 0, 0), (Cable.length, 0, 0)
    model.beam("line", *ends, section=beam_section(), up=(0, 0, 1), elements=n)
    for name, at in zip(("start", "end"), ends):
        model.spherical(name, "ground", f"line.{name}", at=at)
    return model.build()


def line_places(n: int, result: hx.Result) -> np.ndarray:
    """Where the parts of the line of `n` elements begin and end at the end of the run."""
    nodes = [k * n // Cable.places for k in range(Cable.places + 1)]
    return np.stack([np.asarray(result[f"line[{k}]"].position)[-1] for k in nodes])


def build_beam_net(n: int, between: int = 1) -> tuple[Any, Any]:
    """`n` beams across `n` others, with that many elements of two nodes between crossings."""
    model = hx.Model(gravity=(0, 0, -Beam.gravity))
    far = (n - 1) * BeamNet.spacing
    options = {"section": beam_section(), "up": (0, 0, 1), "elements": between * (n - 1)}
    for k in range(n):
        at = k * BeamNet.spacing
        model.beam(f"x{k}", (0, at, 0), (far, at, 0), **options)
        model.beam(f"y{k}", (at, 0, 0), (at, far, 0), **options)
    for i, j in BeamNet.crossings(n):
        model.fixed(f"crossing{i},{j}", f"x{j}[{between * i}]", f"y{i}[{between * j}]")
    for i, j in BeamNet.corners(n):
        model.fixed(f"corner{i},{j}", "ground", f"x{j}[{between * i}]")
    return model.build()


def crossings(n: int, result: hx.Result, between: int = 1) -> np.ndarray:
    """Where the crossings of a net are at the end of the run."""
    names = [f"x{j}[{between * i}]" for i, j in BeamNet.crossings(n)]
    return np.stack([np.asarray(result[name].position)[-1] for name in names])


def far_end(rods: Rods, result: hx.Result) -> np.ndarray:
    """Where the last rod ends at the end of the run."""
    last = result[f"rod{len(rods.centres) - 1}"]
    return np.asarray(last.point((0.5 * rods.length, 0.0, 0.0)))[-1]


# -- time per step ------------------------------------------------------------------------------


def per_step(
    recorder: Recorder,
    name: str,
    build: Callable[[], tuple[Any, Any]],
    steps: int,
    error: Callable[[hx.Result], float | None],
    step: float = STEP,
) -> None:
    """Seconds to compile and microseconds per step of one method."""
    try:
        system, start = build()
        options = {"dt": step, **method(name)}
        begin = time.process_time()
        run(system, start, step, **options)
        recorder.row(name, "compile_s", time.process_time() - begin)
    except Exception as problem:
        recorder.missing(name, "us_per_step", problem)
        return
    recorder.per_step(
        name,
        steps,
        lambda: run(system, start, steps * step, **options),
        error,
        note=lambda result: newton_iterations(result, steps),
    )


def newton_iterations(result: hx.Result, steps: int) -> str:
    """Their number in a step, for methods that have any."""
    count = result.stats.get("newton_iterations")
    return "" if count is None else f"{count / steps:.2f} Newton iterations a step"


def slider_crank(recorder: Recorder) -> None:
    """Both methods, 10000 steps."""
    for name in (GENERALIZED_ALPHA, PROJECTED_RK4):
        per_step(
            recorder,
            name,
            hx.examples.slider_crank,
            round(SliderCrank.t_end / STEP),
            lambda result: SliderCrank.end_error(result.q[-1, 0]),
        )


def andrews_cartesian(recorder: Recorder) -> None:
    """Seven planar bodies in 21 coordinates."""
    angles = lambda result: [result[f"K{i + 1}"].angle[-1] for i in range(7)]  # noqa: E731
    per_step(
        recorder,
        GENERALIZED_ALPHA,
        lambda: hx.examples.andrews("cartesian"),
        round(Andrews.t_end / Andrews.step),
        lambda result: Andrews.error_of_bodies(angles(result)),
        Andrews.step,
    )


def spatial_slider_crank(recorder: Recorder) -> None:
    """Three bodies in space, one loop."""
    for name in (GENERALIZED_ALPHA, PROJECTED_RK4):
        per_step(
            recorder,
            name,
            hx.examples.spatial_slider_crank,
            SpatialSliderCrank.steps,
            lambda result: SpatialSliderCrank.error(result["slider"].position[-1, 0]),
        )


def other_implicit_methods(recorder: Recorder, n: int) -> None:
    """Steps of other methods on the same equations, counted in those of generalized-alpha."""
    mechanism = chain(n)
    system, start = build_rods(mechanism)
    seconds = {}
    for name in (GENERALIZED_ALPHA, *ON_INDEX_3):
        options = {"dt": STEP, **method(name)}
        run(system, start, STEP, **options)
        simulate = lambda options=options: run(system, start, mechanism.t_end, **options)  # noqa: E731
        seconds[name], result = recorder.best(simulate)
        ratio = seconds[name] / seconds[GENERALIZED_ALPHA]
        note = newton_iterations(result, mechanism.steps)
        if name in ON_INDEX_3:
            recorder.row(name, "times_alpha", ratio, note=note)


def four_bars(recorder: Recorder, n: int) -> None:
    """A row of four-bars."""
    system, start = hx.examples.n_four_bar(n)
    recorder.row("elimination by minimum degree", "fill", fill(system))
    per_step(
        recorder,
        GENERALIZED_ALPHA,
        lambda: (system, start),
        FourBars.steps,
        lambda result: FourBars.error(n, result["crank 0"].angle[-1]),
    )


def beam(recorder: Recorder, n: int) -> None:
    """The cantilever of `n` elements."""
    tip = lambda result: Beam.error(result["beam.end"].position[-1])  # noqa: E731
    per_step(recorder, GENERALIZED_ALPHA, lambda: build_beam(n), Beam.steps, tip)


def cable(recorder: Recorder, n: int) -> None:
    """The line of `n` elements."""
    error = lambda result: Cable.error(line_places(n, result))  # noqa: E731
    per_step(recorder, GENERALIZED_ALPHA, lambda: build_cable(n), Cable.steps, error)


def beam_net(recorder: Recorder, n: int) -> None:
    """The net of beams with n x n crossings."""
    begin = time.process_time()
    system, start = build_beam_net(n)
    seconds = time.process_time() - begin
    recorder.row(GENERALIZED_ALPHA, "build_s", seconds, note="model and consistent start")
    error = lambda result: BeamNet.error(n, crossings(n, result))  # noqa: E731
    per_step(recorder, GENERALIZED_ALPHA, lambda: (system, start), BeamNet.steps, error)


def rods(recorder: Recorder, mechanism: Rods, name: str, memory: bool = False) -> None:
    """One method on rods with spherical joints; with `memory` also what this process holds."""
    idle, begin = peak_memory(), time.process_time()
    system, start = build_rods(mechanism)
    recorder.row(name, "build_s", time.process_time() - begin, note="model and consistent start")
    if not memory:
        recorder.row("elimination by minimum degree", "fill", fill(system))
    large = len(mechanism.centres) > 1000
    per_step(
        recorder,
        name,
        lambda: (system, start),
        mechanism.steps,
        lambda result: None if large else mechanism.error(far_end(mechanism, result)),
    )
    if memory:
        peak = peak_memory()
        recorder.row(name, "peak_MiB", peak, note="whole process")
        recorder.row(name, "model_MiB", peak - idle, note="the peak above that after imports")


# -- time to reach an error ---------------------------------------------------------------------

# Tolerances and steps run from coarse to fine.
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
EXPLICIT: dict[str, tuple[Any, Any]] = {
    "Dop853, index 1": (hx.Index1(), hx.Dop853()),
    "Dop853, projection": (hx.PostStabilized("both"), hx.Dop853()),
    "Dopri5, index 1": (hx.Index1(), hx.Dopri5()),
    "Dopri5, projection": (hx.PostStabilized("both"), hx.Dopri5()),
    "VariableAdams, index 1": (hx.Index1(), hx.VariableAdams()),
}
IMPLICIT: dict[str, tuple[Any, Any]] = {
    "VariableBDF, GGL": (hx.GGL(), hx.VariableBDF()),
    "RadauIIA, GGL": (hx.GGL(), hx.RadauIIA()),
}
FIXED: dict[str, tuple[Any, Any]] = {
    "RK4, index 1": (hx.Index1(), hx.RK4()),
    "RK4, projection (2 passes)": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "Dop853, index 1": (hx.Index1(), hx.Dop853()),
    "Dop853, projection": (hx.PostStabilized("both"), hx.Dop853()),
}


def accuracy(
    recorder: Recorder,
    build: Callable[[], tuple[Any, Any]],
    t_end: float,
    error: Callable[[hx.Result], float],
    steps: tuple[float, ...],
    *,
    explicit: dict[str, tuple[Any, Any]] = EXPLICIT,
    fixed: dict[str, tuple[Any, Any]] = FIXED,
    implicit: dict[str, tuple[Any, Any]] = IMPLICIT,
    tolerances: tuple[float, ...] = TOLERANCES,
    times: np.ndarray | None = None,
) -> None:
    """Work-precision curves of methods with steps chosen by their error, and with equal steps."""
    system, start = build()
    kinds = (
        ("rtol", tolerances, explicit, "steps by error"),
        ("dt", steps, fixed, "equal steps"),
        ("rtol", tolerances[::2], implicit, "steps by error"),
    )
    for label, settings, pairs, kind in kinds:
        for name, (formulation, integrator) in pairs.items():
            variant = f"{name}, {kind}"
            options = {"formulation": formulation, "integrator": integrator}

            def simulate(
                setting: float, save: Any = "end", label: str = label, options: Options = options
            ) -> hx.Result:
                return run(system, start, t_end, save=save, **{label: setting}, **options)

            if recorder.seconds_left < 10:
                recorder.missing(variant, "s", "no time left")
                continue
            try:
                begin = time.process_time()
                simulate(settings[0])
                recorder.row(variant, "compile_s", time.process_time() - begin)
            except Exception as problem:
                recorder.missing(variant, "compile_s", problem)
            sampled = None if times is None else lambda x, f=simulate: f(x, save=times)
            recorder.curve(variant, label, settings, simulate, error, sampled=sampled)


def slider_crank_accuracy(recorder: Recorder) -> None:
    """To 10 s; the error is that of 1001 samples."""
    accuracy(
        recorder,
        hx.examples.slider_crank,
        SliderCrank.t_end,
        lambda result: SliderCrank.error(result.q[:, 0]),
        (1e-2, 5e-3, 2.5e-3, 1e-3, 5e-4, 2.5e-4),
        times=SliderCrank.times,
    )


def andrews_accuracy(recorder: Recorder) -> None:
    """In seven angles, to 0.03 s."""
    accuracy(
        recorder,
        hx.examples.andrews,
        Andrews.t_end,
        lambda result: Andrews.error(result.q[-1]),
        (1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6),
    )


def chain_accuracy(recorder: Recorder, n: int) -> None:
    """The free end of the chain, to 1e-6 m and beyond."""
    mechanism = chain(n)
    accuracy(
        recorder,
        lambda: build_rods(mechanism),
        mechanism.t_end,
        lambda result: mechanism.error(far_end(mechanism, result)),
        (5e-2, 2e-2, 1e-2, 5e-3, 2.5e-3),
        # Each takes some ten seconds to compile: only those that may win.
        explicit={name: pair for name, pair in EXPLICIT.items() if "Dopri5, index" not in name},
        fixed={name: pair for name, pair in FIXED.items() if "RK4" in name},
        implicit={},
        tolerances=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )


# -- the call itself ----------------------------------------------------------------------------


def call(recorder: Recorder) -> None:
    """What `simulate` takes beside its steps: a run of one step."""
    for name, build in (
        ("slider-crank", hx.examples.slider_crank),
        ("four-bar", four_bar),
        ("spatial slider-crank", hx.examples.spatial_slider_crank),
    ):
        system, start = build()
        for kind, steps in (("equal steps", {"dt": STEP}), ("steps by error", {"rtol": 1e-6})):
            once = lambda s=steps: hx.simulate(system, start, STEP, save="end", **s)  # noqa: E731, B023
            once()
            spent = min(recorder.best(once)[0] for _ in range(5))
            recorder.row(f"{name}, {kind}", "call_ms", 1e3 * spent, note="simulate, one step")


def stiff_chain_accuracy(recorder: Recorder, n: int) -> None:
    """The first rods of the chain with torsion springs."""
    accuracy(
        recorder,
        lambda: build_stiff_chain(n),
        StiffChain.t_end,
        lambda result: StiffChain.error(n, stiff_chain_places(result)),
        (1e-2, 5e-3, 2e-3, 1e-3),
        explicit={"VariableBDF, GGL": IMPLICIT["VariableBDF, GGL"]},
        fixed={"generalized-alpha, index 3": (hx.Index3(), hx.GeneralizedAlpha(RHO))},
        implicit={},
        tolerances=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    )


# -- the first answer ----------------------------------------------------------------------------


def cold_compile(recorder: Recorder, name: str) -> None:
    """Compile the chain of 1000 rods with an empty cache of compiled programs."""
    import jax

    with tempfile.TemporaryDirectory() as empty:
        jax.config.update("jax_compilation_cache_dir", empty)
        system, start = build_rods(chain(1000))
        begin = time.perf_counter()
        try:
            run(system, start, STEP, dt=STEP, **method(name))
        except Exception as problem:
            recorder.missing(f"chain N=1000, {name}", "compile_s", problem)
        else:
            seconds = time.perf_counter() - begin
            recorder.row(f"chain N=1000, {name}", "compile_s", seconds, note="wall time")


WORKS: dict[str, Callable[[Recorder], None]] = {
    "slider-crank": slider_crank,
    "andrews cartesian": andrews_cartesian,
    "spatial slider-crank": spatial_slider_crank,
    "slider-crank accuracy": slider_crank_accuracy,
    "andrews accuracy": andrews_accuracy,
    "n-four-bar N=40": lambda r: four_bars(r, 40),
    "n-four-bar N=400": lambda r: four_bars(r, 400),
    "chain N=1000/other-implicit-methods": lambda r: other_implicit_methods(r, 1000),
    "net 20x20": lambda r: rods(r, net(20), GENERALIZED_ALPHA),
    "tree 500": lambda r: rods(r, tree(500), GENERALIZED_ALPHA),
    "beam N=16": lambda r: beam(r, 16),
    "beam N=64": lambda r: beam(r, 64),
    "cable N=100": lambda r: cable(r, 100),
    "cable N=1000": lambda r: cable(r, 1000),
    **{f"beam-net {n}x{n}": lambda r, n=n: beam_net(r, n) for n in BeamNet.sizes},
    "call": call,
    "first-answer/gyroscope": lambda r: fresh.answer(r, "gyroscope", error=Gyroscope.error),
    "first-answer/command-line": lambda r: fresh.command_lines(r, names_of_examples()),
    "many slider-cranks": lambda r: many_slider_cranks(
        r, {name: method(name) for name in (GENERALIZED_ALPHA, PROJECTED_RK4)}
    ),
    "first-answer/compile-generalized-alpha": lambda r: cold_compile(r, GENERALIZED_ALPHA),
    "first-answer/compile-RK4": lambda r: cold_compile(r, PROJECTED_RK4),
}
for _name in [name for name in ANSWERS if not name.startswith("gyroscope")]:
    WORKS[f"first-answer/{_name}"] = lambda r, name=_name: fresh.answer(r, name)
for _name in MECHANISMS:
    WORKS[f"first-answer/pairs-{_name}"] = lambda r, name=_name: fresh.pairs(
        r, name, len(hx.methods())
    )
for _n in (10, 100, 1000):
    WORKS[f"stiff-chain N={_n} accuracy"] = lambda r, n=_n: stiff_chain_accuracy(r, n)
for _n in (10, 100, 1000, 10000, 100_000):
    for _part, _name in (("generalized-alpha", GENERALIZED_ALPHA), ("RK4", PROJECTED_RK4)):
        WORKS[f"chain N={_n}/{_part}"] = lambda r, n=_n, name=_name: rods(
            r, chain(n), name, memory=True
        )
    WORKS[f"chain N={_n} accuracy"] = lambda r, n=_n: chain_accuracy(r, n)
for _part, _build, _parameter in (
    ("slider-crank", hx.examples.slider_crank, "m"),
    ("four-bar", four_bar, "coupler.mass"),
    ("chain-10", lambda: build_rods(chain(10)), "rod4.mass"),
):
    for _kind, _name in (("generalized-alpha", GENERALIZED_ALPHA), ("RK4", PROJECTED_RK4)):
        WORKS[f"gradients/{_part}-{_kind}"] = (
            lambda r, part=_part, build=_build, parameter=_parameter, name=_name: gradients(
                r, build, parameter, method(name), f"{part}, {name}"
            )
        )
for _part, _build, _parameter, _runs in (
    ("slider-crank", hx.examples.slider_crank, "m", 4096),
    ("four-bar", four_bar, "coupler.mass", 2048),
    ("spatial-slider-crank", hx.examples.spatial_slider_crank, "rod.mass", 512),
    ("planar-chain-10", lambda: planar_chain(10), "rod4.mass", 256),
):
    for _kind, _options in (
        ("generalized-alpha", {"dt": STEP, **method(GENERALIZED_ALPHA)}),
        ("RK4", {"dt": STEP, **method(PROJECTED_RK4)}),
        ("Dopri5", {"rtol": 1e-8}),
    ):
        WORKS[f"ensemble/{_part}-{_kind}"] = (
            lambda r, *, part=_part, kind=_kind, given=(_build, _parameter, _options), runs=_runs: (
                ensembles(r, *given, f"{part}, {kind}", runs)
            )
        )


if __name__ == "__main__":
    tool_main("holonax", version_of("holonax"), WORKS)
