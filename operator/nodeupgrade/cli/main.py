"""The root command. The modules of commands do not depend on one another."""

import click

from nodeupgrade import __version__
from nodeupgrade.cli.program import Lazy, Program

COMMANDS = {
    "Look": (
        Lazy("explain", "explain", "Print which containers would restart if only the kubelet were swapped, and why."),
        Lazy("check", "check", "Check whether the installation can carry out a rollout."),
        Lazy("plan", "plan", "Show what the NodeUpgrade in FILE would do to the cluster, without touching anything."),
        Lazy("status", "status", "Show the status of rollouts."),
        Lazy(
            "failures", "node", "List the nodes of a rollout that failed, were rolled back or refused, and what to do."
        ),
        Lazy("explain-node", "node", "Show everything that is known about one node."),
        Lazy("evidence", "node", "Show the proof of what was done to a node."),
        Lazy("report", "report", "Print a rollout as one page to hand over, such as in a change ticket."),
        Lazy("hashes", "census", "Count running containers by the kubelet whose hash they carry."),
    ),
    "Steer": (
        Lazy("approve", "steering", "Approve a wave, so that it can begin."),
        Lazy("pause", "steering", "Pause a rollout, or all of them: no further node is started until it is resumed."),
        Lazy("resume", "steering", "Resume a paused rollout, or all of them."),
        Lazy("retry", "steering", "Retry nodes that failed, were rolled back or refused."),
        Lazy("abort", "steering", "End a rollout for good."),
    ),
    "Without a cluster": (
        Lazy("new", "new", "Write a NodeUpgrade for VERSION that passes lint."),
        Lazy("lint", "lint", "Check NodeUpgrades in FILES without a cluster; '-' reads standard input."),
        Lazy("hash", "hashes", "Print the container hashes that kubelets of given versions compute."),
        Lazy(
            "verify",
            "verify",
            "Show which kubelet versions could have stored the hashes of a node's running containers.",
        ),
        Lazy("completion", "completion", "Print the completion script for SHELL."),
    ),
}
"""Commands by section of the root's help. Each is imported when it is used: all together take a second to load."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("nodeupgrade", cls=Program, sections=COMMANDS, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="nodeupgrade")
def main() -> None:
    """Upgrade kubelets in place, without restarting a single container.

    A NodeUpgrade object says what is wanted and the operator in the cluster carries it out; these commands check
    such objects, show their state, and steer them. What changes a cluster can be done with plain kubectl as well.

    Exit codes: 0 done, or yes; 1 no, or it cannot be done; 2 wrong usage; 3 the cluster cannot be reached or does
    not permit it; 4 the time given with --timeout has expired.
    """
