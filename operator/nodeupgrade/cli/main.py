"""The root command. The modules of commands do not depend on one another."""

import click

from nodeupgrade import __version__
from nodeupgrade.cli.commands.change import abort_command, approve_command, pause_command, resume_command, retry_command
from nodeupgrade.cli.commands.completion import completion_command
from nodeupgrade.cli.commands.hashes import explain_command, hash_command, verify_command
from nodeupgrade.cli.commands.lint import lint_command
from nodeupgrade.cli.commands.node import evidence_command, explain_node_command, failures_command
from nodeupgrade.cli.commands.plan import plan_command
from nodeupgrade.cli.commands.status import status_command
from nodeupgrade.cli.program import Program

COMMANDS: dict[str, tuple[click.Command, ...]] = {
    "Look": (plan_command, status_command, failures_command, explain_node_command, evidence_command),
    "Steer": (approve_command, pause_command, resume_command, retry_command, abort_command),
    "Without a cluster": (lint_command, hash_command, explain_command, verify_command, completion_command),
}


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("nodeupgrade", cls=Program, sections=COMMANDS, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="nodeupgrade")
def main() -> None:
    """Upgrade kubelets in place, without restarting a single container.

    A NodeUpgrade object says what is wanted and the operator in the cluster carries it out; these commands check
    such objects, show how they do, and steer them. Everything can be done with plain kubectl as well.

    Exit codes: 0 done, or yes; 1 no, or it cannot be done; 2 wrong usage; 3 the cluster cannot be reached or does
    not permit it; 4 the time given with --timeout is over.
    """
