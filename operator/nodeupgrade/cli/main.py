"""The root command. The modules of commands do not depend on one another."""

import click

from nodeupgrade import __version__
from nodeupgrade.cli.program import Lazy, Program

COMMANDS = {
    "Look": (
        Lazy("check", "check", "Say whether the installation could carry out a rollout."),
        Lazy("plan", "plan", "Say what the NodeUpgrade in FILE would do to the cluster, without touching anything."),
        Lazy("status", "status", "Show how rollouts stand."),
        Lazy(
            "failures", "node", "List the nodes of a rollout that failed, were rolled back or refused, and what to do."
        ),
        Lazy("explain-node", "node", "Say everything that is known about one node."),
        Lazy("evidence", "node", "Show the proof of what was done to a node."),
        Lazy("hashes", "census", "Show how many running containers carry the hash of which kubelet."),
    ),
    "Steer": (
        Lazy("approve", "steering", "Let a wave begin that waits for approval."),
        Lazy("pause", "steering", "Start no further node until the rollout is resumed."),
        Lazy("resume", "steering", "Take back a pause."),
        Lazy("retry", "steering", "Try nodes once more that failed, were rolled back or refused."),
        Lazy("abort", "steering", "End a rollout for good."),
    ),
    "Without a cluster": (
        Lazy("new", "new", "Write a NodeUpgrade to VERSION that lint accepts."),
        Lazy("lint", "lint", "Check NodeUpgrades in FILES without a cluster; '-' reads standard input."),
        Lazy("hash", "hashes", "Print the container hashes that kubelets of given versions compute."),
        Lazy("explain", "hashes", "Print which containers would restart if only the kubelet were swapped, and why."),
        Lazy(
            "verify",
            "verify",
            "Say which kubelet versions could have stored the hashes of a node's running containers.",
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
    such objects, show how they do, and steer them. What changes a cluster can be done with plain kubectl as well.

    Exit codes: 0 done, or yes; 1 no, or it cannot be done; 2 wrong usage; 3 the cluster cannot be reached or does
    not permit it; 4 the time given with --timeout is over.
    """
