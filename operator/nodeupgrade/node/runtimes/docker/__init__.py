"""Docker with dockershim."""
