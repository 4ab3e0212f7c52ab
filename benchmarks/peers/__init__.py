"""One module for each peer; each is run in a process of its own."""
