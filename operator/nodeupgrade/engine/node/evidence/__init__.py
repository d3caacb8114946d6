"""Compare what the runtime shows with the plan, before and during a run."""
