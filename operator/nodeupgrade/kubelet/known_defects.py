"""Releases of the kubelet that are better not chosen as a target, with what makes each defect matter to a node.

To add a release, add an entry to `KNOWN_BAD`: `domain/node/checks/kubelet.py` reads that table, and no other code is
needed unless the concern is new. Find the releases in upstream's changelogs: the first one from the source before and
after the regression, or from a note that names it, and for each branch the one that has the fix. Leave out what cannot
be found there. A defect that needs more than one property of a node gets a check of its own, which names it in
``follows``; such a defect is in `kubelet.history`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodeupgrade.kubelet.history import ReleaseDefect
from nodeupgrade.kubelethash.changes import issue, pull


class Concern(StrEnum):
    """What a node must have for a release's defect to matter there; `domain/node/checks/kubelet.py` looks for it."""

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
"""Releases that are better not chosen."""
