"""`nodeupgrade hash` and `nodeupgrade explain`: the hashes that kubelets compute, without a cluster."""

from collections.abc import Mapping
from typing import Any, TextIO

import click

from nodeupgrade.api.wording import counted
from nodeupgrade.cli.commands.pod_options import (
    OUTPUT_OPTION,
    PODS_OPTION,
    Entry,
    Row,
    known_version,
    known_versions,
    report,
    specs_by_name,
)
from nodeupgrade.cli.program import command
from nodeupgrade.cli.reports.restarts import pod_forecast
from nodeupgrade.kubelethash import HashChange, KubeletVersion, explain_pod, hash_container


@command(
    "hash",
    "kubectl get pods -A -o json | nodeupgrade hash --kubelet-version 1.30,1.33 --pods -",
    "nodeupgrade hash --kubelet-version v1.33.13 --pods pod.yaml -o json",
)
@click.option(
    "--kubelet-version",
    "versions",
    callback=known_versions,
    required=True,
    metavar="VERSION[,VERSION...]",
    help="One or more kubelet versions, such as 1.17,1.30,v1.33.13.",
)
@PODS_OPTION
@OUTPUT_OPTION
def hash_command(versions: tuple[str, ...], stream: TextIO, output: str) -> None:
    """Print the container hashes that kubelets of given versions compute."""

    def examine(pod: Mapping[str, Any]) -> tuple[Entry, list[Row]]:
        hashes = {version: _hashes(pod, version) for version in versions}
        rows = [(name, *(hashes[version][name] for version in versions)) for name in hashes[versions[0]]]
        return {"hashes": hashes}, rows

    report(stream, output, ("CONTAINER", *versions), wanted="hash", examine=examine, closing=str)


@command(
    "explain",
    "kubectl get pods -A -o json | nodeupgrade explain --from 1.30 --to 1.33 --pods -",
    "nodeupgrade explain --from 1.30 --to 1.33 --pods pods.json -o json | jq .restarts",
)
@click.option(
    "--from", "from_", callback=known_version, required=True, metavar="VERSION", help="Kubelet version that runs now."
)
@click.option("--to", callback=known_version, required=True, metavar="VERSION", help="Kubelet version to upgrade to.")
@PODS_OPTION
@OUTPUT_OPTION
def explain_command(from_: KubeletVersion, to: KubeletVersion, stream: TextIO, output: str) -> None:
    """Print which containers would restart if only the kubelet were swapped, and why.

    Only running containers count, according to the pod's status; in a pod without a status, all containers count.
    """
    running = restarting = pods = 0

    def examine(pod: Mapping[str, Any]) -> tuple[Entry, list[Row]]:
        nonlocal running, restarting, pods
        change = explain_pod(pod, from_, to)
        found = pod_forecast(dict(pod), str(from_), str(to))
        running += len(found.running)
        restarting += len(found.restarts)
        pods += bool(found.restarts)
        rows: list[Row] = [("(all)", sentence) for sentence in found.whole_pod]
        rows += [(name, why) for name in found.running for why in change.reasons(name)]
        return {
            "wholePod": list(found.whole_pod),
            "containers": [_change_entry(each) for each in change.containers if each.container in found.running],
            "resized": [name for name in change.resized if name in found.running],
            "restarts": list(found.restarts),
        }, rows

    def closing() -> str:
        if restarting:
            return f"{restarting} of {counted(running, 'running container')} would restart, in {counted(pods, 'pod')}."
        return f"No container would restart: {counted(running, 'running container')} examined."

    report(stream, output, ("CONTAINER", "RESTARTS BECAUSE"), wanted="explain", examine=examine, closing=closing)


def _hashes(pod: Mapping[str, object], version: str) -> dict[str, str]:
    """Return the hash of each container by name, in the pod's order, init containers first."""
    return {name: hash_container(each, version) for name, each in specs_by_name(pod).items()}


def _change_entry(change: HashChange) -> Entry:
    return {
        "container": change.container,
        "from": str(change.old),
        "to": str(change.new),
        "cause": "fields" if change.fields else "algorithm",
        "fields": list(change.fields),
        "because": change.sentence(),
    }
