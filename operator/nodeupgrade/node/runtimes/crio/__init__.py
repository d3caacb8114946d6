"""CRI-O."""
