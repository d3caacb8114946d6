"""The outside world: one package for each part of it, and each vendor library sealed in its own."""
