"""Named places where a test interrupts a run."""
