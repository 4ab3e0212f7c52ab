"""The command line: ``holonax simulate``, ``holonax papers``, ``holonax methods``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def _papers(arguments: argparse.Namespace) -> int:
    from .papers import PAPERS, reproduce, write_index

    if arguments.paper is None:
        for name, title in PAPERS.items():
            print(f"{name:12} {title}")
        print("\nholonax papers NAME (or all) recomputes one and writes a report.")
        return 0
    names = list(PAPERS) if arguments.paper == "all" else [arguments.paper]
    reports = []
    for name in names:
        report = reproduce(name, out=arguments.out, quick=arguments.quick)
        reports.append(report)
        where = Path(arguments.out) / name / "index.html"
        print(f"{name}: {report.verdicts()}; {report.seconds:.0f} s; {where}", flush=True)
    if len(reports) > 1:
        print(write_index(reports, arguments.out))
    return 0


def _all_methods() -> Any:
    from . import methods

    return methods()


def _simulate(arguments: argparse.Namespace) -> int:
    from . import examples, simulate, study

    if arguments.example is None:
        for name in examples.__all__:
            print(f"{name:26} {(getattr(examples, name).__doc__ or '').strip().splitlines()[0]}")
        print("\nholonax simulate NAME runs one of them.")
        return 0
    if arguments.example not in examples.__all__:
        known = ", ".join(examples.__all__)
        raise ValueError(f"simulate: there is no example {arguments.example!r}; there are {known}.")
    system, start = getattr(examples, arguments.example)()
    options = study.options_by_name(
        arguments.formulation, arguments.integrator, dt=arguments.dt, rtol=arguments.rtol
    )
    result = simulate(system, start, arguments.t_end, **options)
    print(result)
    if arguments.plot is not None:
        from . import plot

        plot(result, title=arguments.example).savefig(arguments.plot)
        print(arguments.plot)
    return 0 if result.success else 1


def _methods(arguments: argparse.Namespace) -> int:
    for method in _all_methods():
        if arguments.word is None or arguments.word.lower() in str(method).lower():
            print(method)
    return 0


def _parser() -> argparse.ArgumentParser:
    from . import __version__

    parser = argparse.ArgumentParser(
        prog="holonax", description="Constrained multibody dynamics on JAX."
    )
    parser.add_argument("--version", action="version", version=f"holonax {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("simulate", help="simulate a ready mechanism")
    run.add_argument("example", nargs="?", metavar="NAME", help="an example; none: list them")
    run.add_argument("--t-end", type=float, default=10.0, help="end time [s] (%(default)s)")
    run.add_argument(
        "--dt", type=float, help="equal steps of this length [s] (0.001 where none else will do)"
    )
    run.add_argument("--rtol", type=float, help="steps chosen by their error, at most this (1e-06)")
    run.add_argument("--formulation", metavar="NAME", help="see `holonax methods`")
    run.add_argument("--integrator", metavar="NAME", help="see `holonax methods`")
    run.add_argument("--plot", metavar="FILE", help="draw the result, as .png, .pdf or .svg")
    run.set_defaults(run=_simulate)

    papers = commands.add_parser("papers", help="recompute the tables and figures of a paper")
    papers.add_argument("paper", nargs="?", metavar="NAME", help="a paper, or all; none: list them")
    papers.add_argument("--out", default="out/papers", help="folder of the reports (%(default)s)")
    papers.add_argument("--quick", action="store_true", help="tables that take seconds only")
    papers.set_defaults(run=_papers)

    methods = commands.add_parser("methods", help="list every legal pair of methods")
    methods.add_argument("word", nargs="?", help="only those whose description has this word")
    methods.set_defaults(run=_methods)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are one line on stderr and the exit status 2."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except (TypeError, ValueError, ImportError, OSError) as error:
        print(f"holonax: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
