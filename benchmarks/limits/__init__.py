"""Programs written by hand for one mechanism each: what the machine can do."""
