"""One node: what is found on it, what its run is to do, what comes next, and what became of it."""
