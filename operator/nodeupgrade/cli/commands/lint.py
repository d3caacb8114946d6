"""`nodeupgrade lint`: report everything that is wrong with a NodeUpgrade before it is applied."""

from collections.abc import Sequence
from typing import TextIO

import click

from nodeupgrade.api.json import Json
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import say
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import ClusterConnection, cluster_options
from nodeupgrade.cli.inputs.documents import documents
from nodeupgrade.cli.inputs.problems import is_upgrade, results
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, CannotError, InputFile, command, name_of

LIVE = "live"


@command(
    "lint",
    "nodeupgrade lint upgrades/*.yaml",
    "kustomize build . | nodeupgrade lint -",
    "git show main:rollout.yaml > /tmp/before.yaml; nodeupgrade lint rollout.yaml --against /tmp/before.yaml",
    "nodeupgrade lint rollout.yaml --against live",
)
@click.argument("files", nargs=-1, required=True, type=InputFile())
@click.option(
    "--against",
    metavar="live|FILE",
    help="Also check that immutable fields are unchanged, compared with the cluster or another file.",
)
@output_option()
@cluster_options
def lint_command(connection: ClusterConnection, files: Sequence[TextIO], against: str | None, output: str) -> int:
    """Check NodeUpgrades in FILES without a cluster; '-' reads standard input.

    Reports what the API server and the operator would reject, with file and line, and more: fields that do not exist
    or occur twice, versions whose hashes are not known, windows that never open, approvals for waves that do
    not exist. Objects of other kinds are skipped. The exit code is 1 when there is a problem; warnings do not
    count. A cluster is needed only for --against live.
    """
    found = [each for file in files for each in documents(file.read(), name_of(file))]
    ours = [each for each in found if is_upgrade(each)]
    before = _before(connection, against, {each.name for each in ours if each.name})
    now = connection.world.now()
    listed = [result for each in ours for result in results(each, before.get(each.name), now)]
    problems = sum(not result.warning for result in listed)
    if output != "text":
        dump(listed, output)
        return NO if problems or not ours else OK
    for other in (each for each in found if not is_upgrade(each)):
        say(f"{other.file}:{other.line('')}: skipped: {other.kind or 'not a Kubernetes object'} {other.name}")
    for result in listed:
        say(str(result))
    if not ours:
        say("error: cannot check anything because there is no NodeUpgrade in these files", err=True)
        return NO
    verdict = counted(problems, "problem") if problems else "no problem"
    say(f"{counted(len(ours), 'NodeUpgrade')}, {verdict}.")
    return NO if problems else OK


def _before(connection: ClusterConnection, against: str | None, names: set[str]) -> dict[str, Json]:
    """Return the objects to compare with, by name."""
    if against is None:
        return {}
    if against == LIVE:
        return connection.run(lambda _world, kube: cluster_objects.bodies(kube, names))
    with click.open_file(against, encoding="utf-8", errors="surrogateescape") as file:
        found = {each.name: each.body for each in documents(file.read(), against) if is_upgrade(each)}
    if not found:
        raise CannotError(
            f"cannot compare with {against} because there is no NodeUpgrade in it; give the version before"
        )
    return found
