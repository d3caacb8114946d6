"""The command line: `nodeupgrade`, and the same as a kubectl plugin."""
