"""What is measured, by which tool, in how much time; and what is hoped for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

OURS, BY_HAND = "holonax", "by hand"

# The module that measures each tool.
TOOLS = {
    OURS: "benchmarks.ours",
    BY_HAND: "benchmarks.limits.limits",
    "Exudyn": "benchmarks.peers.exudyn",
    "SUNDIALS": "benchmarks.peers.sundials",
    "scipy-dae": "benchmarks.peers.scipy_dae",
    "SciPy": "benchmarks.peers.scipy_ode",
    "Pinocchio": "benchmarks.peers.pinocchio",
    "Drake": "benchmarks.peers.drake",
    "Simbody": "benchmarks.peers.simbody",
    "MuJoCo": "benchmarks.peers.mujoco",
    "MJX": "benchmarks.peers.mjx",
}

# The errors that are to be reached.
ERRORS = {
    "slider-crank accuracy": (1e-3, 1e-6, 1e-9),
    "andrews accuracy": (1e-3, 1e-6, 1e-9),
    "chain N=10 accuracy": (1e-6,),
    "chain N=100 accuracy": (1e-6,),
    "chain N=1000 accuracy": (1e-6,),
    **{f"stiff-chain N={n} accuracy": (1e-6,) for n in (10, 100, 1000)},
}


def short(error: float) -> str:
    """A power of ten as it is written by hand: 1e-6."""
    return f"{error:.0e}".replace("e-0", "e-")


class FirstAnswer(NamedTuple):
    """What a user waits for, with the CPU time wanted [s] of the first and the second process."""

    variant: str
    text: str
    cold: float | None
    second: float | None


# The variants are those of the work "first-answer"; most are names for `first_answer.py`.
FIRST_ANSWERS = (
    FirstAnswer("import", "`import holonax`", 1.0, 1.0),
    FirstAnswer("four_bar", "the README's four-bar, without pictures", 3.0, 1.5),
    FirstAnswer("slider_crank", "`examples.slider_crank`, 1 s", 2.5, 1.5),
    FirstAnswer("andrews", "`examples.andrews`, 0.05 s", 4.0, 2.0),
    FirstAnswer("spatial_slider_crank", "`examples.spatial_slider_crank`, 1 s", 6.0, 2.0),
    FirstAnswer("flyball_governor", "`examples.flyball_governor`, 1 s", 10.0, 3.0),
    FirstAnswer("gyroscope", "a gyroscope of three bodies, 1 s", None, None),
    FirstAnswer("ensemble", "an ensemble of 1000 of the README's four-bars, 1 s", 5.0, None),
    FirstAnswer("holonax simulate, worst", "`holonax simulate NAME`, the worst", 12.0, 3.0),
    FirstAnswer("pairs on slider_crank, worst", "slider-crank, the worst pair", 8.0, 3.0),
    FirstAnswer("pairs on four_bar, worst", "four-bar, the worst pair", 8.0, 3.0),
    FirstAnswer(
        "pairs on spatial_slider_crank, worst", "spatial slider-crank, the worst pair", 8.0, 3.0
    ),
)


class Job(NamedTuple):
    """One process: a tool on a work, or on a part of it, "WORK/PART", with its time [s]."""

    tool: str
    key: str
    seconds: float

    @property
    def work(self) -> str:
        """Without the part."""
        return self.key.partition("/")[0]


def jobs() -> list[Job]:
    """Everything, in order."""
    out = []

    def add(key: str, **seconds: float) -> None:
        for name, given in seconds.items():
            tool = next(tool for tool in TOOLS if name == _identifier(tool))
            out.append(Job(tool, key, given))

    add("slider-crank", holonax=40, exudyn=20, by_hand=10)
    add("andrews cartesian", holonax=40, exudyn=20)
    add("spatial slider-crank", holonax=60, exudyn=20)
    sizes = ((10, 30, 20), (100, 40, 30), (1000, 60, 60), (10000, 150, 0), (100_000, 300, 0))
    for n, ours, exudyn in sizes:
        add(f"chain N={n}/generalized-alpha", holonax=ours)
        add(f"chain N={n}/RK4", holonax=ours)
        if exudyn:
            add(f"chain N={n}", exudyn=exudyn, by_hand=20)
    add("chain N=1000/other-implicit-methods", holonax=120)
    add("n-four-bar N=40", holonax=30, exudyn=20)
    add("n-four-bar N=400", holonax=60, exudyn=30)
    add("net 20x20", holonax=90, exudyn=60)
    add("tree 500", holonax=60, exudyn=60)
    for n in (16, 64):
        add(f"beam N={n}", holonax=60, exudyn=60)
    add("cable N=100", holonax=300, exudyn=60)
    add("cable N=1000", holonax=150, exudyn=150)
    add("beam-net 10x10", holonax=150, exudyn=60)
    add("beam-net 30x30", holonax=600, exudyn=150)
    for work in ("slider-crank accuracy", "andrews accuracy"):
        add(work, holonax=150, sundials=30, scipy_dae=60, scipy=20, exudyn=60)
    for n, ours, peers in ((10, 120, 15), (100, 120, 30), (1000, 150, 40)):
        work = f"chain N={n} accuracy"
        add(work, holonax=ours, exudyn=peers, pinocchio=peers, drake=peers)
        add(work, simbody=peers, mujoco=peers)
    for n in (10, 100, 1000):
        add(f"stiff-chain N={n} accuracy", holonax=90, exudyn=60)
    for part in ("slider-crank", "four-bar", "chain-10"):
        for kind in ("generalized-alpha", "RK4"):
            add(f"gradients/{part}-{kind}", holonax=900)
    add("call", holonax=60)
    for part in ("slider-crank", "four-bar", "spatial-slider-crank", "planar-chain-10"):
        for kind in ("generalized-alpha", "RK4", "Dopri5"):
            add(f"ensemble/{part}-{kind}", holonax=120)
    add("many slider-cranks", holonax=60, mujoco=40, mjx=150, exudyn=40)
    out += _first_answers()
    return out


def _first_answers() -> list[Job]:
    """The work "first-answer", with no spaces in the names of its parts."""
    parts = {
        "import": 60,
        "four_bar": 90,
        "slider_crank": 90,
        "andrews": 90,
        "spatial_slider_crank": 180,
        "flyball_governor": 180,
        "gyroscope": 180,
        "ensemble": 120,
        "command-line": 480,
        "pairs-slider_crank": 1500,
        "pairs-four_bar": 1500,
        "pairs-spatial_slider_crank": 1500,
        "compile-generalized-alpha": 60,
        "compile-RK4": 60,
    }
    out = [Job(OURS, f"first-answer/{part}", seconds) for part, seconds in parts.items()]
    return out + [Job(peer, "first-answer/gyroscope", 30) for peer in ("Exudyn", "MuJoCo")]


def _identifier(tool: str) -> str:
    return tool.lower().replace("-", "_").replace(" ", "_")


@dataclass(frozen=True)
class Target:
    """What is hoped for: a number of `rows` on one side of `bound`.

    `field` is the number looked at: a ratio, or the value itself. `variant` is the beginning of
    the variant's name; among several rows the best counts.
    """

    text: str
    work: str
    metric: str
    field: str
    bound: float
    variant: str = ""
    at_least: bool = False
    against: Sequence[str] = ()  # the peers that count; none: all

    def met(self, measured: float) -> bool:
        """Whether it is."""
        return measured >= self.bound if self.at_least else measured <= self.bound


def targets() -> list[Target]:
    """All of them."""
    alpha, rk4 = "generalized-alpha", "RK4"

    def faster(
        text: str, work: str, metric: str, bound: float, *against: str, variant: str = ""
    ) -> Target:
        return Target(text, work, metric, "ratio_to_best_peer", bound, variant, True, against)

    def limit(text: str, work: str, variant: str, bound: float) -> Target:
        return Target(text, work, "us_per_step", "ratio_to_by_hand", bound, variant)

    name = "slider-crank"
    out = [
        faster("slider-crank, generalized-alpha, against Exudyn", name, "us_per_step", 20),
        limit("slider-crank, RK4 + projection, against C", name, rk4, 2.2),
        limit("slider-crank, generalized-alpha, against C", name, alpha, 1.5),
        limit("chain N=1000, RK4 + projection, against C++", "chain N=1000", rk4, 3),
        limit("chain N=1000, generalized-alpha, against C++", "chain N=1000", alpha, 3),
    ]
    for name in ("slider-crank", "andrews"):
        for error in ("1e-6", "1e-9"):
            text = f"{name} to {error}, against SUNDIALS, Exudyn, scipy-dae"
            peers = ("SUNDIALS", "Exudyn", "scipy-dae")
            out.append(faster(text, f"{name} accuracy", f"s_to_error_{error}", 5, *peers))
    out.append(
        faster("andrews in 21 coordinates, against Exudyn", "andrews cartesian", "us_per_step", 10)
    )
    for n in (10, 100, 1000):
        text = f"chain N={n}, generalized-alpha, against Exudyn"
        out.append(faster(text, f"chain N={n}", "us_per_step", 3))
    for n in (10, 100, 1000):
        text = f"chain N={n} to 1e-6, against every peer"
        out.append(faster(text, f"chain N={n} accuracy", "s_to_error_1e-6", 1))
    for work in ("n-four-bar N=40", "n-four-bar N=400", "net 20x20", "tree 500"):
        out.append(faster(f"{work}, against Exudyn", work, "us_per_step", 1))
    for n in (16, 64):
        text = f"beam of {n} elements, against Exudyn's geometrically exact beam"
        out.append(faster(text, f"beam N={n}", "us_per_step", 3))
    for work in ("cable N=1000", "beam-net 10x10", "beam-net 30x30"):
        text = f"{work}, against Exudyn's geometrically exact beam"
        out.append(faster(text, work, "us_per_step", 3))
        out.append(Target(f"cold compile [s], {work}", work, "compile_s", "value", 15, alpha))
    text = f"growth in time from N=100 to 1000 of a cable, {alpha}"
    out.append(Target(text, "cable N=1000", "growth_per_decade", "value", 12, f"time, {alpha}"))
    for kind, bound in (("time", 11), ("memory", 12)):
        for variant in (alpha, rk4):
            for n in (100, 1000, 10000, 100_000):
                text = f"growth in {kind} from N={n // 10} to {n}, {variant}"
                name = f"{kind}, {variant}"
                work = f"chain N={n}"
                out.append(Target(text, work, "growth_per_decade", "value", bound, name))
    for variant, bound in (("RadauIIA(3)", 6), ("BDF(2)", 1.5)):
        text = f"chain N=1000, {variant} on Index3, steps of {alpha} that one takes"
        out.append(Target(text, "chain N=1000", "times_alpha", "value", bound, variant))
    for n in (10, 100, 1000):
        text = f"stiff chain N={n} to 1e-6, GGL + VariableBDF, against Exudyn"
        work, bdf = f"stiff-chain N={n} accuracy", "VariableBDF"
        out.append(faster(text, work, "s_to_error_1e-6", 3, variant=bdf))
    radau, name = "RadauIIA, GGL", "slider-crank accuracy"
    text = "slider-crank to 1e-6, GGL + RadauIIA"
    out.append(Target(f"{text} [s]", name, "s_to_error_1e-6", "value", 5e-3, radau))
    out.append(
        faster(f"{text}, against SUNDIALS", name, "s_to_error_1e-6", 1, "SUNDIALS", variant=radau)
    )
    text = f"spatial slider-crank, {alpha}, against Exudyn"
    out.append(faster(text, "spatial slider-crank", "us_per_step", 10, variant=alpha))
    for variant in (alpha, rk4):
        name = f"chain N=1000, {variant}"
        text = f"cold compile [s], {name}"
        out.append(Target(text, "first-answer", "compile_s", "value", 10, name))
    for work, variant, bound in (
        ("slider-crank", rk4, 0.56),
        ("slider-crank", alpha, 0.36),
        ("andrews cartesian", alpha, 2.5),
        ("spatial slider-crank", rk4, 4.0),
        ("spatial slider-crank", alpha, 6.0),
        ("chain N=10", rk4, 8.0),
        ("chain N=10", alpha, 8.0),
    ):
        text = f"{work}, {variant}, one step [µs]"
        out.append(Target(text, work, "us_per_step", "value", bound, variant))
    for variant, bound in (
        ("slider-crank, RK4", 2.5e7),
        ("slider-crank, generalized-alpha", 4e7),
        ("slider-crank, Dopri5", 1e7),
        ("four-bar, RK4", 1e7),
        ("four-bar, generalized-alpha", 1.5e7),
    ):
        text = f"ensemble, {variant}, steps/s of one core"
        out.append(Target(text, "ensemble", "steps_per_s", "value", bound, variant, True))
    for part in ("slider-crank", "four-bar"):
        for kind in (rk4, alpha):
            text = f"ensemble, {part}, {kind}, all cores against one"
            variant = f"{part}, {kind}"
            out.append(Target(text, "ensemble", "times_one_core", "value", 1.8, variant, True))
    out += _gradient_targets((alpha, rk4))
    for part in ("slider-crank", "four-bar"):
        text = f"a call of simulate, {part}, without its steps [ms]"
        out.append(Target(text, "call", "call_ms", "value", 0.5, part))
    for variant, peer in (
        (rk4, "MuJoCo's rollouts and MJX"),
        (alpha, "Exudyn's parameter variation"),
    ):
        text = f"many slider-cranks, {variant}, against {peer}"
        out.append(faster(text, "many slider-cranks", "us_per_step", 20, variant=variant))
    text = "ensemble, spatial slider-crank, RK4, against one run"
    spatial = "spatial-slider-crank, RK4"
    out.append(Target(text, "ensemble", "times_one_run", "value", 10, spatial, True))
    for first in FIRST_ANSWERS:
        for metric, bound in (("cold_s", first.cold), ("second_s", first.second)):
            if bound is not None:
                text = f"first answer [s], {first.variant}, {metric.removesuffix('_s')}"
                out.append(Target(text, "first-answer", metric, "value", bound, first.variant))
    return out


def _gradient_targets(kinds: Sequence[str]) -> list[Target]:
    """Gradients in runs. Those of JAX are counted in runs that XLA has compiled as well."""
    asked = (
        ("value_and_gradient", "runs", 3.0),
        ("value_and_gradient", "compile_s", 3.0),
        ("grad(trajectory)", "runs_of_trajectory", 5.0),
        ("jvp(trajectory)", "runs_of_trajectory", 2.5),
    )
    return [
        Target(f"{way}, {part}, {kind}, {metric}", "gradients", metric, "value", bound, variant)
        for part in ("slider-crank", "four-bar", "chain-10")
        for kind in kinds
        for way, metric, bound in asked
        for variant in [f"{way}, {part}, {kind}"]
    ]


def wanted(work: str, metric: str, variant: str) -> float | None:
    """What is wanted of such a row's value, if anything."""
    for target in targets():
        same = target.work == work and target.metric == metric and target.field == "value"
        if same and variant.startswith(target.variant):
            return target.bound
    return None
