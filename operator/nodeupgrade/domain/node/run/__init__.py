"""One node's run: its journal, its state machine, its rescue script and its report."""
