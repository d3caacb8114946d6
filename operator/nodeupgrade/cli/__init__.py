"""The command line: `nodeupgrade`, also installed as a kubectl plugin."""
