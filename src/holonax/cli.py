"""The command line, for ``python -m holonax.cli``; the command itself is `holonax_cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; see `holonax_cli.main`."""
    import holonax_cli

    return holonax_cli.main(argv)


if __name__ == "__main__":
    sys.exit(main())
