"""One rollout: which nodes take part, when each may start, what becomes of those in flight, and how it all stands."""
