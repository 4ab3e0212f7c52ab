"""Starts of a run: consistent initial conditions, and what is wrong with a mechanism."""
