"""Defects of particular releases of the kubelet, and releases to avoid as a target.

To add a release, add an entry to `KNOWN_BAD`, with what makes the defect matter to a node:
`node/checks/kubelet.py` reads that table, and no other code is needed unless the concern is new. Find the
releases in upstream's changelogs: the first one from the source before and after the regression, or from a note that
names it, and for each branch the one that has the fix. Leave out what cannot be found there. A defect that needs more
than one property of a node is a constant, and gets a check of its own, which names it in ``follows``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.kubelethash.changes import issue, pull, reference

ReleaseNumber: TypeAlias = tuple[int, int]
"""Minor and patch of a Kubernetes 1.x release."""


@dataclass(frozen=True, slots=True)
class ReleaseDefect:
    """A defect of particular kubelet releases."""

    link: str  # the upstream issue or pull request
    what: str  # the defect, as a sentence
    # ranges as first and last affected release; the last one is `None` if there is no fix yet
    releases: tuple[tuple[ReleaseNumber, ReleaseNumber | None], ...]

    def affects(self, kubelet: KubeletVersion) -> bool:
        """Report whether a kubelet has the defect."""
        release = (kubelet.minor, kubelet.patch)
        return any(first <= release and (last is None or release <= last) for first, last in self.releases)

    def fixed_after(self, kubelet: KubeletVersion) -> str:
        """The first release after an affected one that has the fix, for messages; empty if there is none yet."""
        release = (kubelet.minor, kubelet.patch)
        last = next((last for first, last in self.releases if first <= release and (last is None or release <= last)))
        return "" if last is None else f"1.{last[0]}.{last[1] + 1}"

    @property
    def reference(self) -> str:
        """The link in short form, for messages."""
        return reference(self.link)


SIDECAR_STOPS_RESTARTS = ReleaseDefect(
    issue(136910),
    "In a pod with a sidecar that has a startup probe, crashed containers are not restarted.",
    releases=(((35, 0), (35, 3)),),
)
LABELS_READ_TOO_EARLY = ReleaseDefect(
    pull(94087),
    "Pods are admitted before the Node has been read, by the labels that the kubelet itself sets.",
    releases=(((5, 0), (18, 15)), ((19, 0), (19, 7)), ((20, 0), (20, 2))),
)
SIDECAR_PORTS_IGNORED = ReleaseDefect(
    pull(132040), "The host ports of sidecars do not count when pods are admitted.", releases=(((28, 0), (33, 5)),)
)
ENDED_PODS_ADMITTED = ReleaseDefect(
    issue(126341),
    "Pods that have ended are admitted again; one that is rejected becomes Failed even if it had succeeded.",
    releases=(((22, 0), (28, 13)), ((29, 0), (29, 8)), ((30, 0), (30, 4)), ((31, 0), (31, 0))),
)
OLD_TLS_PROBED = ReleaseDefect(
    pull(113983),
    "HTTPS probes accept TLS before 1.2: the kubelet is built with a Go before 1.18.",
    releases=(((5, 0), (23, 15)),),
)
EXTENDED_RESOURCES_ZEROED = ReleaseDefect(
    issue(73948),
    "A starting kubelet sets the node's extended resources to 0, so that pods with those of no device plugin are"
    " rejected.",
    releases=(((10, 7), (14, 8)),),
)
DEVICES_FORGOTTEN = ReleaseDefect(
    issue(102880), "The device checkpoint of a kubelet before 1.20 is not read.", releases=(((20, 0), (21, 5)),)
)
DEVICE_PODS_REJECTED = ReleaseDefect(
    issue(118559),
    "Running pods with devices are rejected when a kubelet starts.",
    releases=(((25, 10), (25, 13)), ((26, 5), (26, 8)), ((27, 2), (27, 5))),
)
DEVICES_ALLOCATED_ANEW = ReleaseDefect(
    issue(138446),
    "Devices are reallocated for containers that do not run, such as completed init containers.",
    releases=(((25, 10), (25, 16)), ((26, 5), (26, 15)), ((27, 2), None)),
)
RESTARTED_NOT_FOUND = ReleaseDefect(
    pull(135485),
    "A container that was restarted earlier is treated as not running, and loses its devices.",
    releases=(((25, 10), (25, 16)), ((26, 5), (26, 15)), ((27, 2), (34, 6)), ((35, 0), (35, 3))),
)
CLAIMS_UNMOUNTED = ReleaseDefect(
    pull(130335),
    "A starting kubelet unmounts volumes of running pods whose PersistentVolumeClaim is being deleted.",
    releases=(((10, 0), (30, 11)), ((31, 0), (31, 7)), ((32, 0), (32, 3))),
)


class Concern(StrEnum):
    """The property of a node that makes a release's defect matter; `node/checks/kubelet.py` looks for it."""

    EVERY_NODE = "every node"
    ENDED_PODS = "pods that have ended"
    PINNED_PODS = "guaranteed pods with several containers, under a static policy for CPUs or memory"
    CLAIMED_VOLUMES = "pods with persistent volumes"
    ROOT_ON_ZFS = "the kubelet's directory is on ZFS"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect(ReleaseDefect):
    """A defect that matters to nodes with one property."""

    concern: Concern  # that property
    only_warns: bool = False  # whether it does not forbid a run, because no container is lost


KNOWN_BAD: Mapping[str, KnownDefect] = {
    "pods that ended count": KnownDefect(
        issue(105523),
        "A starting kubelet counts the requests of pods that have ended, and so may reject running ones.",
        releases=(((22, 0), (22, 2)),),
        concern=Concern.ENDED_PODS,
    ),
    "managers forget": KnownDefect(
        pull(103979),
        "The managers of CPUs and memory forget pods with several containers while they are admitted.",
        releases=(((22, 0), (22, 0)),),
        concern=Concern.PINNED_PODS,
    ),
    "volumes are reconstructed wrongly": KnownDefect(
        pull(117751),
        "A starting kubelet does not recognise the volumes that are mounted.",
        releases=(((27, 0), (27, 1)),),
        concern=Concern.CLAIMED_VOLUMES,
    ),
    "status is not reported": KnownDefect(
        pull(130348),
        "After a restart a kubelet may not report the node's status nor renew its serving certificate.",
        releases=(((32, 0), (32, 2)),),
        concern=Concern.EVERY_NODE,
        only_warns=True,
    ),
    "no start on ZFS": KnownDefect(
        pull(138590), "The kubelet does not start on ZFS.", releases=(((36, 0), (36, 0)),), concern=Concern.ROOT_ON_ZFS
    ),
}
"""Releases to avoid as a target."""
