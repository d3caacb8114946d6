"""What runs on a node beside its pods' containers: clients of the runtime, user IDs, and control groups."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.json import MalformedFileError, from_json, to_json
from nodeupgrade.api.values import ContainerId, Digest, NodeName, PodUid
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import KubeletVersion, QosClass, UnsupportedKubelet


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClients:
    """The containers that use the runtime's sockets.

    Attributes:
        mounted: containers that have mounted the file of a socket which a restart makes anew, with the paths of these
            sockets on the node.
        connected: containers of which a process is connected to the runtime.
        unknown: why the connections could not be read; empty if they could.
    """

    mounted: Mapping[ContainerId, tuple[str, ...]] = field(default_factory=dict)
    connected: frozenset[ContainerId] = frozenset()
    unknown: str = ""


NO_CLIENTS = RuntimeClients()


# Which UIDs a kubelet computes by itself: what shows later that a line in a manifest is not needed any more.
#
# A kubelet that runs a static pod without ``metadata.uid`` has computed its UID: from the manifest as its version
# decodes it, the node's name, the manifest's path and, by defaults, the feature gates. Another of its minor version
# computes the same from the same.

RECORD = PurePosixPath("/var/lib/nodeupgrade/static-pods.json")
"""On the node, beside the runs; without it a line stays until somebody takes it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnUid:
    """The UID that a kubelet computed for a static pod.

    Attributes:
        path: the manifest.
        manifest: digest of the manifest, which named no UID.
        version: the kubelet's.
        gates: its feature gates, as far as they are set, each as ``name=true`` or ``name=false``.
    """

    node: NodeName
    path: str
    manifest: Digest
    uid: str
    version: str
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnUids:
    """All that is known on a node; one for each manifest."""

    known: tuple[OwnUid, ...] = ()

    def of(self, path: str, uid: str, node: NodeName) -> OwnUid | None:
        """Return what is known about a manifest whose pod runs under a UID; ``None`` if that is nothing."""
        return next((own for own in self.known if (own.path, own.uid, own.node) == (path, uid, node)), None)

    def with_these(self, newer: Iterable[OwnUid]) -> "OwnUids":
        """Return it with newer knowledge about some manifests."""
        found = {own.path: own for own in (*self.known, *newer)}
        return OwnUids(known=tuple(found.values()))


NOTHING_KNOWN = OwnUids()


def parse(data: bytes | None) -> OwnUids:
    """Read the record; what cannot be read proves nothing."""
    try:
        return NOTHING_KNOWN if data is None else from_json(OwnUids, json.loads(data), strict=True)
    except (ValueError, MalformedFileError):
        return NOTHING_KNOWN


def render(own: OwnUids) -> bytes:
    """Return the record as a file."""
    return json.dumps(to_json(own, strict=True), indent=1).encode()


def is_computed_again(own: OwnUid, manifest: bytes, target: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    """Report whether a kubelet would compute the same UID from a manifest that names none."""
    try:
        was = KubeletVersion.parse(own.version)
    except UnsupportedKubelet:
        return False
    same_kubelet = (was.major, was.minor) == (target.major, target.minor) and own.gates == written(gates)
    return same_kubelet and own.manifest == sha256(manifest).hexdigest()


def written(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return feature gates as `OwnUid` has them."""
    return tuple(sorted(f"{name}={str(on).lower()}" for name, on in gates.items()))


# Where a kubelet keeps the cgroups of its pods, and which controllers it insists on.

NEEDED = frozenset({"cpu", "cpuset", "memory", "hugetlb", "pids"})
"""Controllers that a pod's cgroup must have on cgroup v2, as far as the node has them at all."""
NEEDED_V1 = frozenset({"cpu", "cpuacct", "cpuset", "memory", "hugetlb", "pids", "name=systemd"})
"""Hierarchies of cgroup v1 in which a pod must have a directory, as far as they are mounted."""

_SLICE = ".slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCgroups:
    """Where a kubelet that starts looks for the cgroups of pods, before it does anything else for them.

    Attributes:
        hierarchies: on cgroup v1, mount points of the hierarchies that must have each of them, by name.
        controllers: on cgroup v2, the controllers that each of them must have.
        places: path of each pod's cgroup, relative to the root of a hierarchy.
    """

    hierarchies: Mapping[str, str] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()
    places: Mapping[PodUid, str] = field(default_factory=dict)


NONE_EXPECTED = ExpectedCgroups()


def manages_cgroups(settings: Configured) -> bool:
    """Report whether the kubelet makes a cgroup for each pod, as it does by default."""
    return settings.text("cgroups-per-qos", "cgroupsPerQOS", "true").lower() != "false"


def all_pods(settings: Configured, driver: str) -> PurePosixPath:
    """Return the cgroup that holds all pods, relative to the root of the hierarchy."""
    return _path(driver, _base(settings))


def of_pod(settings: Configured, driver: str, uid: str, qos: QosClass) -> PurePosixPath:
    """Return the cgroup of a pod, relative to the root of the hierarchy."""
    of_class = () if qos is QosClass.GUARANTEED else (qos.value.lower(),)
    return _path(driver, (*_base(settings), *of_class, f"pod{uid}"))


def _base(settings: Configured) -> tuple[str, ...]:
    root = settings.text("cgroup-root", "cgroupRoot", "/")
    return (*(part for part in root.split("/") if part), "kubepods")


def _path(driver: str, parts: tuple[str, ...]) -> PurePosixPath:
    """Join the parts of a cgroup's name; a systemd slice has the names of all slices above it in its own."""
    if driver != "systemd":
        return PurePosixPath(*parts)
    escaped = [part.replace("-", "_") for part in parts]
    return PurePosixPath(*("-".join(escaped[: length + 1]) + _SLICE for length in range(len(escaped))))
