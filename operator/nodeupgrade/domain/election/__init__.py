"""Which of several operators leads: what a Lease says, and what a contender does about it."""
