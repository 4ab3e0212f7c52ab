"""Wu, Chiou, Lin 2000: weights, stability limits and the crank mechanism."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import holonax as hx

from .drawing import COLOURS, STYLES, canvas, finish, lines
from .report import Figure, Report, Row, Table

CITATION = (
    "Wu, S. D., Chiou, J. C., Lin, Y. C.: Modified Adams–Moulton predictor–corrector method in "
    "solving multibody dynamical systems, 2000, doi:10.1081/SME-100100618. AMPC_m is "
    "`AdamsMoulton(m)`, MAMPC_m `ModifiedAdamsMoulton(m)`; equation, table and figure numbers are "
    "the paper's."
)


def integral(k: int, shift: int) -> Fraction:
    """(-1)^k times the integral over [0, 1] of the binomial coefficient (shift - s over k)."""
    polynomial = [Fraction(1)]  # coefficients of s^0, s^1, ...
    for j in range(k):  # times (s - shift + j) / (j + 1), which is -(shift - s - j) / (j + 1)
        a = Fraction(j - shift, j + 1)
        b = Fraction(1, j + 1)
        longer = [Fraction(0), *[b * c for c in polynomial]]
        polynomial = [x + a * c for x, c in zip(longer, [*polynomial, Fraction(0)], strict=True)]
    return sum((c / (n + 1) for n, c in enumerate(polynomial)), Fraction(0))


def table_1(report: Report) -> None:
    """The integrals from which all weights follow, exactly."""
    bashforth = ("1", "1/2", "5/12", "3/8", "251/720", "95/288")
    moulton = ("1", "-1/2", "-1/12", "-1/24", "-19/720", "-3/160")
    rows = []
    for name, shift, printed in (("AB", 0, bashforth), ("AM", 1, moulton)):
        for k, text in enumerate(printed):
            exact = integral(k, shift)
            label = f"{name}, k = {k}: {text} (here {exact})"
            rows.append(Row(label, f"{float(Fraction(text)):.15g}", float(exact)))
    shares = {1: "1/2", 2: "1/6", 3: "1/10", 4: "19/270", 5: "27/502", 6: "863/19950"}
    for m, text in shares.items():
        share = -integral(m, 1) / integral(m - 1, 0)
        label = f"share of the predictor in MAMPC_{m}: {share}"
        printed = f"{float(Fraction(text)):.15g}" if m == 3 else None
        rows.append(Row(label, printed, float(share)))
    report.add(
        Table(
            "Table 1: integrals of the binomial coefficients",
            rows,
            {"arithmetic": "rational, so exact"},
            "The share of the predictor that turns AB_m and AM_(m−1) into AM_m (Theorem 1) is "
            "printed for m = 3 only.",
        )
    )


FAMILIES = {
    "ABP": (hx.AdamsBashforth, ("0.545", "0.300", "0.164")),
    "AMPC": (hx.AdamsMoulton, ("1.729", "1.285", "0.947")),
    "MAMPC": (hx.ModifiedAdamsMoulton, ("1.935", "1.412", "1.040")),
}


def table_2(report: Report) -> None:
    """How far along the negative real axis each method is stable."""
    rows = [
        Row(f"{name}, order {m}", text, hx.study.real_axis_limit(method(m)))
        for name, (method, printed) in FAMILIES.items()
        for m, text in zip((3, 4, 5), printed, strict=True)
    ]
    report.add(
        Table(
            "Table 2: stability limits on the negative real axis",
            rows,
            {"mode": "PECE", "matrix": "derivative of the step itself"},
            "ABP of order 5 ends at 0.16334; print has it rounded up.",
        )
    )


def figures_1_to_3(report: Report) -> None:
    """Stability regions of AMPC_m and MAMPC_m, m = 3, 4, 5."""
    for number, m in enumerate((3, 4, 5), start=1):
        figure, axes = canvas(size=(4.6, 4.2))
        for k, (name, method) in enumerate(
            (("AMPC", hx.AdamsMoulton(m)), ("MAMPC", hx.ModifiedAdamsMoulton(m)))
        ):
            region = hx.study.stability_region(method, (-2.2, 0.6), (-2.0, 2.0), 121)
            style = {"colors": COLOURS[k], "linestyles": STYLES[k]}
            axes.contour(region.re, region.im, region.radius, levels=[1.0], **style)
            axes.plot([], [], color=COLOURS[k], linestyle=STYLES[k], label=f"{name}_{m}")
        axes.axhline(0, color="#999999", linewidth=0.6)
        axes.axvline(0, color="#999999", linewidth=0.6)
        axes.set_aspect("equal")
        finish(axes, "Re hλ", "Im hλ", legend="upper left")
        title = f"Fig. {number}: stability regions of AMPC_{m} and MAMPC_{m}"
        report.add(Figure(title, figure, f"fig{number}", {"grid": "121 × 121", "mode": "PECE"}))


def crank() -> tuple[Any, Any]:
    """The crank mechanism under g = 9.8 m/s² from a consistent start, the crank held."""
    system, _ = hx.examples.slider_crank()
    system = system.with_parameters(g=9.8)
    return system, hx.consistent(system, [0.9851, -0.5236, 0.4256, 0.1], hold=["crank"])


PAIR = {"AMPC_3": hx.AdamsMoulton(3), "MAMPC_3": hx.ModifiedAdamsMoulton(3)}


def damped(problem: Any, integrator: Any, h: float, alpha: float) -> Any:
    """10 s with critically damped constraints, alpha = beta."""
    method = hx.Baumgarte.critical(alpha)
    system, start = problem
    return hx.simulate(system, start, 10.0, dt=h, formulation=method, integrator=integrator)


def table_3(report: Report) -> dict[tuple[str, float], Any]:
    """Mean constraint error with alpha = beta = 5; the runs serve the figures as well."""
    printed = {"AMPC_3": ("4.65e-6", "4.14e-9"), "MAMPC_3": ("9.8e-7", "9.6e-11")}
    problem, rows, runs = crank(), [], {}
    for name, integrator in PAIR.items():
        for h, text in zip((1e-2, 1e-3), printed[name], strict=True):
            run = runs[name, h] = damped(problem, integrator, h, 5.0)
            mean = float(np.mean(run.drift(norm=2)[0]))
            rows.append(Row(f"{name}, h = {h:g} s", text, mean))
    report.add(
        Table(
            "Table 3: mean constraint error over 10 s",
            rows,
            {"alpha = beta": 5, "mode": "PECE", "start": "consistent, starting values to order 8"},
        )
    )
    return runs


def figures_5_to_6(report: Report, runs: dict[tuple[str, float], Any]) -> None:
    """Histories of the constraint error."""
    for number, h in ((5, 1e-2), (6, 1e-3)):
        figure, axes = canvas()
        step = max(runs["AMPC_3", h].t.size // 1000, 1)
        later = slice(step, None, step)  # at the start there is no error
        curves = {name: runs[name, h].drift(norm=2)[0][later] for name in PAIR}
        lines(axes, runs["AMPC_3", h].t[later], curves, log=True)
        finish(axes, "time [s]", "‖Φ‖₂ [m]")
        title = f"Fig. {number}: constraint error with h = {h:g} s"
        report.add(Figure(title, figure, f"fig{number}", {"alpha = beta": 5, "h": f"{h:g} s"}))


def limits_and_figure_7(report: Report) -> None:
    """The gain from which on each method is unstable at h = 0.01 s."""
    problem = crank()

    def unstable(integrator: Any, alpha: float) -> bool:
        return not damped(problem, integrator, 0.01, alpha).success

    first = {
        name: next(a for a in range(160, 200) if unstable(integrator, float(a)))
        for name, integrator in PAIR.items()
    }
    report.add(
        Table(
            "Largest gains at h = 0.01 s",
            [
                Row("first unstable alpha of AMPC_3", "168", first["AMPC_3"]),
                Row("last stable alpha of MAMPC_3", "188", first["MAMPC_3"] - 1),
            ],
            {"rule": "the first whole number for which the run of 10 s blows up"},
        )
    )
    figure, axes = canvas()
    for k, (name, alpha) in enumerate((("AMPC_3", 168), ("MAMPC_3", 168), ("MAMPC_3", 188))):
        run = damped(problem, PAIR[name], 0.01, float(alpha))
        size = np.maximum(run.drift(norm=2)[0], 1e-17)
        style = {"color": COLOURS[k], "linestyle": STYLES[k]}
        axes.semilogy(run.t, size, label=f"{name}, α = {alpha}", **style)
    axes.set_ylim(1e-12, 1e2)
    finish(axes, "time [s]", "‖Φ‖₂ [m]")
    report.add(Figure("Fig. 7: constraint error near the limit", figure, "fig7", {"h": "0.01 s"}))


def reproduce(report: Report, quick: bool) -> None:
    """All tables and figures in the order of the paper."""
    table_1(report)
    table_2(report)
    if not quick:
        figures_1_to_3(report)
    runs = table_3(report)
    if not quick:
        figures_5_to_6(report, runs)
        limits_and_figure_7(report)
