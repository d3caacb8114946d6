"""Compares what the runtime shows with what the plan knows, before and during a run."""
