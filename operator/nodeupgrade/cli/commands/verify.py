"""`nodeupgrade verify`: find the kubelet versions that could have stored the hashes on a node."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import click

from nodeupgrade.api.wording import counted
from nodeupgrade.cli.commands.pod_options import (
    PODS_OPTION,
    Entry,
    Specs,
    known_versions,
    named_pods,
    print_tables,
    specs_by_name,
)
from nodeupgrade.cli.console import say
from nodeupgrade.cli.inputs.pod_stream import read_pods
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, CannotError, InputFile, command
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelethash import HashError, KubeletVersion, detect, group_by_writer, series_ranges

_HASH = "io.kubernetes.container.hash"
_RUNNING = "CONTAINER_RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHash:
    """One running container."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    stored: str  # the hash; empty if there is none

    @property
    def label(self) -> str:
        """``namespace/pod``, as shown to people."""
        return f"{self.namespace}/{self.pod}"


def read_stored(stream: TextIO) -> tuple[StoredHash, ...]:
    """Read the running containers from the output of `crictl inspect` or `crictl ps -o json`.

    Raises:
        CannotError: it is something else, or has no running container.
    """
    found = tuple(each for printed in read_pods(stream) for each in _running_containers(printed))
    if not found:
        raise CannotError(
            "cannot verify anything because there is no running container in the input; give the output of: "
            "crictl inspect $(crictl ps --quiet)"
        )
    return found


def _running_containers(printed: object) -> Iterator[StoredHash]:
    document = printed if isinstance(printed, Mapping) else {}
    listed = document.get("containers")
    for each in listed if isinstance(listed, list) else [document.get("status")]:
        container: Mapping[str, Any] = each if isinstance(each, Mapping) else {}
        labels, annotations = _texts(container.get("labels")), _texts(container.get("annotations"))
        if "io.kubernetes.container.name" not in labels:
            raise CannotError(
                "cannot verify anything because the input holds something other than containers; give the output "
                "of: crictl inspect $(crictl ps --quiet)"
            )
        if container.get("state") == _RUNNING:
            yield StoredHash(
                namespace=labels.get("io.kubernetes.pod.namespace", ""),
                pod=labels.get("io.kubernetes.pod.name", ""),
                pod_uid=labels.get("io.kubernetes.pod.uid", ""),
                container=labels["io.kubernetes.container.name"],
                stored=annotations.get(_HASH, ""),
            )


def _texts(given: object) -> dict[str, str]:
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """One container, the minors that could have stored its hash, and what is wrong with it."""

    container: StoredHash
    spec: Mapping[str, object] | None
    kubelets: tuple[KubeletVersion, ...]
    problem: str = ""

    @property
    def said(self) -> str:
        return self.problem or series_ranges(self.kubelets)

    def entry(self) -> Entry:
        named: Entry = {
            "namespace": self.container.namespace,
            "pod": self.container.pod,
            "container": self.container.container,
            "stored": self.container.stored,
            "kubelets": [each.series for each in self.kubelets],
        }
        return {**named, "problem": self.problem} if self.problem else named


@command(
    "verify",
    "crictl inspect $(crictl ps --quiet) > containers.json",
    "kubectl get pods -A -o json | nodeupgrade verify --containers containers.json --pods -",
    "nodeupgrade verify --containers containers.json --pods pods.json --also-accepted 1.12",
    "nodeupgrade verify --containers containers.json --pods pods.json -o json | jq .kubelets",
)
@click.option(
    "--containers",
    type=InputFile(),
    required=True,
    metavar="FILE|-",
    help="Output of `crictl inspect` or `crictl ps -o json` on the node.",
)
@PODS_OPTION
@click.option(
    "--also-accepted",
    "also",
    callback=known_versions,
    metavar="VERSION[,VERSION...]",
    help="Versions whose hashes the node's kubelet was built to accept too, as in hash.alsoAccepted.",
)
@output_option()
@click.pass_context
def verify_command(
    context: click.Context, containers: TextIO, stream: TextIO, also: tuple[str, ...], output: str
) -> None:
    """Show which kubelet versions could have stored the hashes of a node's running containers.

    It is the proof that an upgrade begins with: if no version that the node's kubelet may have reproduces all of
    them, the node would be refused. The exit code is 1 then. With --also-accepted, containers may also carry the hash
    of one of these versions.
    """
    stored = read_stored(containers)
    by_uid = _specs(stream)
    findings = [_find(each, by_uid.get(each.pod_uid)) for each in stored]
    accepted = {KubeletVersion.parse(each).series for each in also}
    own = [each for each in findings if not any(kubelet.series in accepted for kubelet in each.kubelets)]
    proving = ((each.spec, each.container.stored) for each in own or findings if each.spec is not None)
    common = () if any(each.problem for each in findings) else detect(proving)
    if output == "text":
        rows = (
            (each.container.label, each.container.container, each.container.stored or "-", each.said)
            for each in findings
        )
        print_tables(("POD", "CONTAINER", "STORED", "STORED BY KUBELET"), rows)
        say(_verdict(findings, common, also))
    else:
        carried = [
            {"kubelets": [each.series for each in kubelets], "containers": number}
            for kubelets, number in group_by_writer(each.kubelets for each in findings)
        ]
        entries = [each.entry() for each in findings]
        dump({"kubelets": [each.series for each in common], "carried": carried, "containers": entries}, output)
    context.exit(OK if common else NO)


def _specs(stream: TextIO) -> dict[str, Specs]:
    """Return the containers of each pod by pod UID; a mirror pod has the UID of its static pod, as the runtime does."""
    found: dict[str, Specs] = {}
    for name, pod in named_pods(stream, "verify"):
        try:
            found[_uid(pod)] = specs_by_name(pod)
        except HashError as error:
            say(f"{name.label}: {error}", err=True)
    return found


def _uid(pod: Mapping[str, Any]) -> str:
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not (annotations is None or isinstance(annotations, Mapping)):
        return ""
    return str(parse_pod({"metadata": metadata}).ref.uid)


def _find(container: StoredHash, specs: Specs | None) -> _Matched:
    spec = None if specs is None else specs.get(container.container)
    kubelets = detect([(spec, container.stored)]) if spec is not None else ()
    match spec, container.stored:
        case None, _:
            problem = "its pod is not among the pods given" if specs is None else "its pod has no such container"
        case _, "":
            problem = "it has no hash"
        case _ if not kubelets:
            problem = "none: its pod was changed since, or the kubelet is not an upstream one"
        case _:
            problem = ""
    return _Matched(container=container, spec=spec, kubelets=kubelets, problem=problem)


def _verdict(findings: list[_Matched], common: Iterable[KubeletVersion], also: tuple[str, ...]) -> str:
    but = f" but those of {', '.join(also)}" if also else ""
    if any(each.problem for each in findings) and not any(each.spec for each in findings):
        return (
            "Nothing can be said of these hashes: none of the pods given has such a container; give this node's pods."
        )
    if said := series_ranges(common):
        return f"{counted(len(findings), 'container')}: kubelet {said} could have stored every hash{but}."
    groups = group_by_writer(each.kubelets for each in findings)
    carried = "; ".join(
        f"kubelet {series_ranges(kubelets)}: {counted(count, 'container')}" for kubelets, count in groups
    )
    remedy = (
        ""
        if any(each.problem for each in findings)
        else " If its kubelet was built to accept the hashes of several, list the others in hash.alsoAccepted."
    )
    return (
        "No single kubelet could have stored all of these hashes, so an upgrade would refuse the node. "
        f"Hashes by the kubelet that could have stored them: {carried or 'none'}.{remedy}"
    )
