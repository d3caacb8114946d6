"""`nodeupgrade verify`: find the kubelet versions that could have stored the hashes on a node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import click

from nodeupgrade.api.reasons import counted
from nodeupgrade.cli.commands.pod_options import PODS_OPTION, Entry, checked_pod, named_pods, print_tables
from nodeupgrade.cli.console import dump, output_option, say
from nodeupgrade.cli.inputs.stored_hashes import StoredHash, read_stored
from nodeupgrade.cli.program import NO, OK, InputFile, command
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.kubelethash import HashError, KubeletVersion, detect
from nodeupgrade.kubelethash.pods import container_name, init_containers, regular_containers

Specs = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """One container, the minors that could have stored its hash, and what is wrong with it."""

    container: StoredHash
    spec: Mapping[str, object] | None
    kubelets: tuple[KubeletVersion, ...]
    problem: str = ""

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
    "nodeupgrade verify --containers containers.json --pods pods.json -o json | jq .kubelets",
)
@click.option(
    "--containers",
    type=InputFile(),
    required=True,
    metavar="FILE|-",
    help="What `crictl inspect` or `crictl ps -o json` printed on the node.",
)
@PODS_OPTION
@output_option()
@click.pass_context
def verify_command(context: click.Context, containers: TextIO, stream: TextIO, output: str) -> None:
    """Say which kubelet versions could have stored the hashes of a node's running containers.

    It is the proof that an upgrade begins with: if no version that the node's kubelet may have reproduces all of
    them, the node would be refused. The exit code is 1 then.
    """
    stored = read_stored(containers)
    by_uid = _specs(stream)
    findings = [_find(each, by_uid.get(each.pod_uid)) for each in stored]
    proven = [(each.spec, each.container.stored) for each in findings if each.spec is not None]
    common = () if any(each.problem for each in findings) else detect(proven)
    if output == "text":
        rows = (
            (each.container.label, each.container.container, each.container.stored or "-", _said(each))
            for each in findings
        )
        print_tables(("POD", "CONTAINER", "STORED", "STORED BY KUBELET"), rows)
        say(_verdict(findings, common))
    else:
        dump({"kubelets": [each.series for each in common], "containers": [each.entry() for each in findings]}, output)
    context.exit(OK if common else NO)


def _specs(stream: TextIO) -> dict[str, Specs]:
    """Return the containers of each pod by pod UID; a mirror pod has the UID of its static pod, as the runtime does."""
    found: dict[str, Specs] = {}
    for name, given in named_pods(stream, "verify"):
        try:
            pod: Mapping[str, Any] = checked_pod(given, name)
            every = (*init_containers(pod), *regular_containers(pod))
            found[_uid(pod)] = {container_name(pod, each): each for each in every}
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
            problem = "it carries no hash"
        case _ if not kubelets:
            problem = "none: its pod was changed since, or the kubelet is not a plain one"
        case _:
            problem = ""
    return _Matched(container=container, spec=spec, kubelets=kubelets, problem=problem)


def _said(finding: _Matched) -> str:
    return finding.problem or _ranges(finding.kubelets)


def _verdict(findings: list[_Matched], common: Iterable[KubeletVersion]) -> str:
    if said := _ranges(common):
        return f"{counted(len(findings), 'container')}: kubelet {said} could have stored every hash."
    return "No single kubelet could have stored all of these hashes, so an upgrade would refuse the node."


def _ranges(kubelets: Iterable[KubeletVersion]) -> str:
    """Format minors as ranges: ``1.16 to 1.18, 1.30``."""
    runs: list[list[KubeletVersion]] = []
    for each in kubelets:
        if runs and runs[-1][-1].minor + 1 == each.minor:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(run[0].series if len(run) == 1 else f"{run[0].series} to {run[-1].series}" for run in runs)
