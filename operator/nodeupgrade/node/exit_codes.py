"""Exit codes of our programs on the host, which their units act on."""

EXIT_ABLE = 42
"""Exit status that shows it; no failure ends with this status."""

EXIT_NEEDS_A_HUMAN = 3
"""Exit status of an executor that must not continue: restarting it would not help."""
