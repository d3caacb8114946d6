"""The root command. The modules of commands do not depend on one another."""

import click

from nodeupgrade import __version__
from nodeupgrade.cli.program import Lazy, Program

COMMANDS: dict[str, tuple[Lazy, ...]] = {
    "Look": (
        Lazy(
            "check",
            "nodeupgrade.cli.commands.check:check_command",
            "Say whether the installation could carry out a rollout.",
        ),
        Lazy(
            "plan",
            "nodeupgrade.cli.commands.plan:plan_command",
            "Say what the NodeUpgrade in FILE would do to the cluster, without touching anything.",
        ),
        Lazy("status", "nodeupgrade.cli.commands.status:status_command", "Show how rollouts stand."),
        Lazy(
            "failures",
            "nodeupgrade.cli.commands.node:failures_command",
            "List the nodes of a rollout that failed, were rolled back or refused, and what to do.",
        ),
        Lazy(
            "explain-node",
            "nodeupgrade.cli.commands.node:explain_node_command",
            "Say everything that is known about one node.",
        ),
        Lazy(
            "evidence",
            "nodeupgrade.cli.commands.node:evidence_command",
            "Show the proof of what was done to a node.",
        ),
        Lazy(
            "hashes",
            "nodeupgrade.cli.commands.census:hashes_command",
            "Show how many running containers carry the hash of which kubelet.",
        ),
    ),
    "Steer": (
        Lazy(
            "approve",
            "nodeupgrade.cli.commands.change:approve_command",
            "Let a wave begin that waits for approval.",
        ),
        Lazy(
            "pause",
            "nodeupgrade.cli.commands.change:pause_command",
            "Start no further node until the rollout is resumed.",
        ),
        Lazy("resume", "nodeupgrade.cli.commands.change:resume_command", "Take back a pause."),
        Lazy(
            "retry",
            "nodeupgrade.cli.commands.change:retry_command",
            "Try nodes once more that failed, were rolled back or refused.",
        ),
        Lazy("abort", "nodeupgrade.cli.commands.change:abort_command", "End a rollout for good."),
    ),
    "Without a cluster": (
        Lazy("new", "nodeupgrade.cli.commands.new:new_command", "Write a NodeUpgrade to VERSION that lint accepts."),
        Lazy(
            "lint",
            "nodeupgrade.cli.commands.lint:lint_command",
            "Check NodeUpgrades in FILES without a cluster; '-' reads standard input.",
        ),
        Lazy(
            "hash",
            "nodeupgrade.cli.commands.hashes:hash_command",
            "Print the container hashes that kubelets of given versions compute.",
        ),
        Lazy(
            "explain",
            "nodeupgrade.cli.commands.hashes:explain_command",
            "Print which containers would restart if only the kubelet were swapped, and why.",
        ),
        Lazy(
            "verify",
            "nodeupgrade.cli.commands.hashes:verify_command",
            "Say which kubelet versions could have stored the hashes of a node's running containers.",
        ),
        Lazy(
            "completion",
            "nodeupgrade.cli.commands.completion:completion_command",
            "Print the completion script for SHELL.",
        ),
    ),
}
"""Commands by section of the root's help. Each is imported when it is used: all together take a second to load."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("nodeupgrade", cls=Program, sections=COMMANDS, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="nodeupgrade")
def main() -> None:
    """Upgrade kubelets in place, without restarting a single container.

    A NodeUpgrade object says what is wanted and the operator in the cluster carries it out; these commands check
    such objects, show how they do, and steer them. What changes a cluster can be done with plain kubectl as well.

    Exit codes: 0 done, or yes; 1 no, or it cannot be done; 2 wrong usage; 3 the cluster cannot be reached or does
    not permit it; 4 the time given with --timeout is over.
    """
