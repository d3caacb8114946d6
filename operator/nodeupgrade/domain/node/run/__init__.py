"""One node's run: its journal, its state machine, and what it reports."""
