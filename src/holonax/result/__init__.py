"""What a run returns: arrays with names, and what bodies and joints did."""
