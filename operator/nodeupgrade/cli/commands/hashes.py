"""`nodeupgrade hash`: the hashes that kubelets compute, without a cluster."""

from collections.abc import Mapping
from typing import Any, TextIO

import click

from nodeupgrade.cli.commands.pod_options import (
    OUTPUT_OPTION,
    PODS_OPTION,
    Entry,
    Row,
    known_versions,
    report,
    specs_by_name,
)
from nodeupgrade.cli.inputs.completion import minor_versions
from nodeupgrade.cli.program import command
from nodeupgrade.kubelethash import hash_container


@command(
    "hash",
    "kubectl get pods -A -o json | nodeupgrade hash --kubelet-version 1.30,1.33 --pods -",
    "nodeupgrade hash --kubelet-version v1.33.13 --pods pod.yaml -o json",
)
@click.option(
    "--kubelet-version",
    "versions",
    callback=known_versions,
    shell_complete=minor_versions,
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


def _hashes(pod: Mapping[str, object], version: str) -> dict[str, str]:
    """Return the hash of each container by name, in the pod's order, init containers first."""
    return {name: hash_container(each, version) for name, each in specs_by_name(pod).items()}
