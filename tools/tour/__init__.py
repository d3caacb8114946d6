"""A tour in a terminal: the real planner, engine and command line over a cluster that exists in memory only."""
