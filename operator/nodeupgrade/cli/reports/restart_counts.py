"""What steps from kubelet to kubelet would restart, added up over the pods of a cluster or of a file.

Counts are kept, and no pods: memory grows with nodes, workloads and reasons.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json
from nodeupgrade.cli.reports.restarts import PodForecast, as_map, pod_forecast
from nodeupgrade.cluster.pod_owner import owner_in
from nodeupgrade.cluster.pods import CONFIG_MIRROR
from nodeupgrade.kubelet.supported import unsupported_version
from nodeupgrade.kubelethash import HashError, KubeletVersion

_ADMITTED = re.compile(r'"kube-api-access-[a-z0-9]{5}"')
"""The volume that the API server adds to a pod: the hash depends on its name; whether the hash changes does not."""

_KINDS_OF_PODS = 20_000
"""How many kinds of pods are remembered; pods of one workload are of one kind."""

PROBLEMS_KEPT = 100
"""How many pods that could not be examined are named."""


@dataclass(slots=True, kw_only=True)
class Count:
    """What runs, and what of it would restart."""

    containers: int = 0  # running containers
    restarts: int = 0  # those of them that would restart
    pods: int = 0  # pods with such a container

    def add(self, containers: int, restarts: int) -> None:
        """Count a pod."""
        self.containers += containers
        self.restarts += restarts
        self.pods += restarts > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose pod it is, and where; ``node`` is empty where it is on none, as in a template."""

    node: str
    namespace: str
    name: str
    workload: str  # as ``Deployment shop/web``
    static: bool  # whether it is the mirror pod of a static pod

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    """The finest unit that is counted."""

    node: str
    started: str  # the minor of the kubelet before the step
    namespace: str
    workload: str
    reason: str


@dataclass(slots=True, kw_only=True)
class StepCounts:
    """What one step would restart."""

    to: KubeletVersion
    total: Count = field(default_factory=Count)
    started: Counter[str] = field(default_factory=Counter)  # nodes by the minor before the step
    reasons: dict[str, Count] = field(default_factory=dict)
    namespaces: dict[str, Count] = field(default_factory=dict)
    workloads: dict[str, Count] = field(default_factory=dict)
    nodes: dict[str, Count] = field(default_factory=dict)
    rows: dict[Row, Count] = field(default_factory=dict)

    def add(self, subject: Subject, started: KubeletVersion, running: int, reasons: Counter[str]) -> None:
        """Count a pod with the reasons for which containers of it would restart."""
        restarts = reasons.total()
        self.total.add(running, restarts)
        groups = ((self.namespaces, subject.namespace), (self.workloads, subject.workload), (self.nodes, subject.node))
        for group, name in groups:
            if name:
                group.setdefault(name, Count()).add(running, restarts)
        for reason, containers in reasons.items():
            self.reasons.setdefault(reason, Count()).add(containers, containers)
            row = Row(subject.node, started.series, subject.namespace, subject.workload, reason)
            self.rows.setdefault(row, Count()).add(containers, containers)


Path = tuple[tuple[int, KubeletVersion], ...]
"""Steps by their number, each with the kubelet before it."""


class RestartCounts:
    """Counts pod by pod.

    Args:
        targets: The versions to upgrade to, one step after the other.
        started: The kubelet of every pod, whatever its node; None if nodes say their own.
    """

    def __init__(self, targets: Sequence[KubeletVersion], started: KubeletVersion | None = None) -> None:
        self.steps = tuple(StepCounts(to=target) for target in targets)
        self.nodes = self.pods = self.static = self.templates = 0
        self.unknown_nodes: dict[str, str] = {}  # why a node's pods are not examined
        self.newer_nodes: dict[str, str] = {}  # versions of nodes that are newer than the last target
        self.problems: list[str] = []  # the first pods that could not be examined, with the cause
        self.failed = 0  # how many pods could not be examined
        self.astray = 0  # pods on a node that no Node object describes
        self._paths: dict[str, Path] = {}
        self._forecasts: dict[tuple[bytes, Path], tuple[PodForecast, ...]] = {}
        self._everywhere = None if started is None else tuple(enumerate((started, *targets[:-1])))

    @property
    def restarts(self) -> int:
        """How many restarts all steps would cause; a container that two steps restart counts twice."""
        return sum(step.total.restarts for step in self.steps)

    @property
    def incomplete(self) -> bool:
        """Whether something could not be examined."""
        return bool(self.failed or self.unknown_nodes or self.astray)

    def add_node(self, node: Json) -> None:
        """Take a node's kubelet version from its Node, which may be of any shape."""
        info = as_map(as_map(node.get("status")).get("nodeInfo"))
        name, version = str(as_map(node.get("metadata")).get("name")), str(info.get("kubeletVersion") or "")
        self.nodes += 1
        if not version:
            self.unknown_nodes[name] = "it reports no kubelet version"
        elif (problem := unsupported_version(version)) is not None:
            self.unknown_nodes[name] = problem
        elif not (path := self._path(KubeletVersion.parse(version))):
            self.newer_nodes[name] = version
        else:
            self._paths[name] = path
            for number, before in path:
                self.steps[number].started.update([before.series])

    def _path(self, version: KubeletVersion) -> Path:
        """Return the steps of a node, which never goes back."""
        path: list[tuple[int, KubeletVersion]] = []
        for number, step in enumerate(self.steps):
            if KubeletVersion.parse(version.series) <= step.to:
                path.append((number, version))
                version = step.to
        return tuple(path)

    def add_pod(self, pod: Json, subject: Subject | None = None) -> None:
        """Count a pod."""
        subject = subject or subject_of(pod)
        path = self._path_of(subject)
        if path is None:
            return
        self.pods += 1
        self.static += subject.static
        try:
            for (number, before), found in zip(path, self._forecast(pod, path), strict=True):
                if found.running:
                    reasons = Counter(map("; besides, ".join, found.restarts.values()))
                    self.steps[number].add(subject, before, len(found.running), reasons)
        except HashError as error:
            self.failed += 1
            if len(self.problems) < PROBLEMS_KEPT:
                self.problems.append(f"{subject}: {error}")

    def _forecast(self, pod: Json, path: Path) -> tuple[PodForecast, ...]:
        """Forecast each step; once for all pods that differ in nothing that could matter."""
        kind = _kind_of(pod), path
        if (known := self._forecasts.get(kind)) is None:
            known = tuple(pod_forecast(pod, before, self.steps[number].to) for number, before in path)
            if len(self._forecasts) >= _KINDS_OF_PODS:
                self._forecasts.clear()
            self._forecasts[kind] = known
        return known

    def _path_of(self, subject: Subject) -> Path | None:
        if self._everywhere is not None:
            return self._everywhere
        known = self._paths.get(subject.node)
        elsewhere = subject.node in self.unknown_nodes or subject.node in self.newer_nodes
        self.astray += bool(known is None and subject.node and not elsewhere)
        return known


def subject_of(pod: Json, kind: str = "") -> Subject:
    """Return whose pod it is; the pod may be of any shape. With a kind, it is the template of such a workload."""
    metadata, spec = as_map(pod.get("metadata")), as_map(pod.get("spec"))
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
    static = CONFIG_MIRROR in as_map(metadata.get("annotations"))
    return Subject(
        node=str(spec.get("nodeName") or ""),
        namespace=namespace,
        name=name,
        workload=f"{kind} {namespace}/{name}" if kind else owner_in(pod, namespace, name, static=static),
        static=static,
    )


def _kind_of(pod: Json) -> bytes:
    """Return the digest of everything in a pod that a forecast depends on."""
    spec, status = as_map(pod.get("spec")), as_map(pod.get("status"))
    states = [
        [each.get("name"), "running" in as_map(each.get("state"))] if isinstance(each, dict) else each
        for listed in (status.get("initContainerStatuses"), status.get("containerStatuses"))
        if isinstance(listed, list)
        for each in listed
    ]
    mirror = CONFIG_MIRROR in as_map(as_map(pod.get("metadata")).get("annotations"))
    of_spec = [spec.get(key) for key in ("initContainers", "containers", "resources")]
    # What JSON has no form for comes from YAML only, and differs in its text.
    text = json.dumps([of_spec, states, bool(status), status.get("qosClass"), mirror], default=repr)
    return hashlib.sha256(_ADMITTED.sub('""', text).encode()).digest()
