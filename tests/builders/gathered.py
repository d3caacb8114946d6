"""Builds a simulated node, and gathers its facts."""

from dataclasses import replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.values import Digest
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.traffic import Clients
from nodeupgrade.node.facts import gather
from nodeupgrade.node.facts.gather import running_kubelet
from nodeupgrade.node.facts.next_start import with_files
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.request import Replacement, RunRequest
from tests.builders.sound import request
from tests.doubles.node import SimulatedNode, manifest, pod_json
from tests.doubles.node.kubelet import program

STAGED = PurePosixPath("/usr/bin/.staged")
UNIT = "kubelet.service"
DIGEST = Digest(sha256(program("v1.33.13")).hexdigest())

BY_DEFAULT = VerifySettings()


def node(*arguments: str, files: dict[str, bytes] | None = None) -> SimulatedNode:
    made = SimulatedNode(
        version="v1.26.15",
        pods=[pod_json("web", "nginx")],
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=arguments,
    )
    made.disk.update({str(STAGED): program("v1.33.13"), **(files or {})})
    return made


def requested(*, replacement: Replacement | Finding | None = None, **kubelet: Any) -> RunRequest:
    return request(replacement=replacement or Replacement(program=STAGED, digest=DIGEST), **kubelet)


def gathered(
    seen: SimulatedNode,
    verify: VerifySettings = BY_DEFAULT,
    *,
    node_object: Json | None = None,
    new_files: tuple[NewFile, ...] = (),
    **fields: Any,
) -> NodeFacts:
    running = running_kubelet(seen.services, seen.kubelet, UNIT)
    pods = [pod.raw for pod in seen.kubelet.pods]
    asked = requested(**fields)
    asked = replace(asked, spec=replace(asked.spec, verify=verify), files=new_files)
    return gather.gather(
        seen.ports,
        running,
        asked,
        node_object=node_object or {},
        pods=pods,
        clients=Clients(),
        manifests=read_manifests(seen.ports.files, gather.kubelet_layout(seen.ports.files, running)),
        then=with_files(seen.files, running.words, new_files) if new_files else None,
    )
