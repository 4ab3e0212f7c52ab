"""``python -m holonax_cli``."""

import sys

from . import main

sys.exit(main())
