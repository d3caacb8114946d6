"""The root of the command line. Each module of commands adds itself here and knows nothing of the others."""

import click

from nodeupgrade import __version__
from nodeupgrade.cli.hash_commands import explain_command, hash_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nodeupgrade")
def main() -> None:
    """Upgrade kubelets in place, without restarting a single container."""


main.add_command(hash_command)
main.add_command(explain_command)
