"""Entry point of ``python -m e2e.lab``."""

from e2e.lab.cli import main

main()
