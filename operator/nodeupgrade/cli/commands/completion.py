"""`nodeupgrade completion`: print what a shell, or kubectl, needs to complete our command lines."""

import click
from click.shell_completion import get_completion_class

from nodeupgrade.cli.console import write
from nodeupgrade.cli.program import PLUGIN, PROGRAM, command, completion_variable

FOR_KUBECTL = f"""#!/bin/sh
# kubectl 1.26 and newer run this for `kubectl {PROGRAM} <TAB>`.
COMP_WORDS="{PROGRAM} $*" COMP_CWORD=$# {completion_variable(PROGRAM)}=bash_complete {PLUGIN} | sed 's/^[^,]*,//'
echo :4
"""
"""kubectl wants one word in each line and a directive in the last; ``:4`` forbids file names."""


@command(
    "completion",
    'eval "$(nodeupgrade completion bash)"',
    "nodeupgrade completion fish | source",
    "nodeupgrade completion kubectl > kubectl_complete-nodeupgrade",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "kubectl"]))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL.

    Commands and options are completed, and the names of NodeUpgrades and nodes as far as the cluster answers within
    two seconds. For kubectl, put the script on your PATH as an executable kubectl_complete-nodeupgrade.
    """
    if shell == "kubectl":
        write(FOR_KUBECTL)
        return
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"there is no completion for {shell}")
    root = click.get_current_context().find_root().command
    write(f"{script(root, {}, PROGRAM, completion_variable(PROGRAM)).source()}\n")
