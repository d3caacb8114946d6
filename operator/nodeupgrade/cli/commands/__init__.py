"""The commands: one module for those that belong together."""
