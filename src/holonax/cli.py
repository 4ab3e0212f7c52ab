"""The command line: ``holonax papers``, ``holonax methods``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def _cache_programs() -> None:
    """Keep compiled programs between runs, unless the environment says where or whether."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jax.config.update("jax_compilation_cache_dir", str(Path(base) / "holonax" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


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


def _methods(arguments: argparse.Namespace) -> int:
    from .pairs import methods

    for method in methods():
        if arguments.word is None or arguments.word.lower() in str(method).lower():
            print(method)
    return 0


def _parser() -> argparse.ArgumentParser:
    from ._version import __version__

    parser = argparse.ArgumentParser(
        prog="holonax", description="Constrained multibody dynamics on JAX."
    )
    parser.add_argument("--version", action="version", version=f"holonax {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

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
    _cache_programs()
    try:
        return arguments.run(arguments)
    except (ValueError, ImportError, OSError) as error:
        print(f"holonax: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
