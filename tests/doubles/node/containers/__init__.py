"""The simulated runtime: what it stores, what it serves, and the containers that outlive its restart."""
