"""Run the command line as `python -m nodeupgrade.cli`."""

from nodeupgrade.cli.main import main

main(prog_name="nodeupgrade")
