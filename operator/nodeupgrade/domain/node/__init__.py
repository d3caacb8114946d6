"""The upgrade of one node: inventory, checks, plan, journal and state machine. Pure decisions; no I/O."""
