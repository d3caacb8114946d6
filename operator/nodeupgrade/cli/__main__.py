"""Lets `python -m nodeupgrade.cli` be the same as `nodeupgrade`."""

from nodeupgrade.cli.main import main

main(prog_name="nodeupgrade")
