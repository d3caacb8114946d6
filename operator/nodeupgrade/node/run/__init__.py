"""One node's run: what comes next, and what is done."""
