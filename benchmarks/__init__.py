"""holonax beside its peers and beside programs written by hand; run with ``make bench``."""
