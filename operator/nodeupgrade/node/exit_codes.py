"""Exit codes of our programs on the host, which their units act on."""

EXIT_ABLE = 42
"""A trial run of the executor succeeded; no failure ends with this status."""
EXIT_NEEDS_A_HUMAN = 3
"""A program must not continue: restarting it would not help."""
