"""The command ``holonax``: a package of its own, so that its help comes at once. The library, and
JAX below it, are imported by what computes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# What the command returns.
SUCCESS, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are told on stderr. Returns 0 for success, 1 where a run did not
    reach its end, 2 for wrong input, 130 after Ctrl-C."""
    try:
        from .app import app, drop_output
    except ImportError as error:
        print(f"holonax: the command line needs typer and rich: {error}", file=sys.stderr)
        print("holonax: pip install typer rich", file=sys.stderr)
        return WRONG
    try:
        try:
            app(list(sys.argv[1:] if argv is None else argv), prog_name="holonax")
        except SystemExit as end:
            return _code(end)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return SUCCESS
    except KeyboardInterrupt:
        print("holonax: interrupted", file=sys.stderr)
        return INTERRUPTED
    return SUCCESS


def _code(end: SystemExit) -> int:
    if end.code is None:
        return SUCCESS
    return end.code if isinstance(end.code, int) else WRONG
