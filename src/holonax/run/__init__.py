"""A run, from the request to the result: `simulate`, and `trajectory` as a pure function."""
