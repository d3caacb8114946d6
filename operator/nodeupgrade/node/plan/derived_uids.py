"""Which UIDs a kubelet computes by itself: what shows later that a line in a manifest is not needed any more.

A kubelet that runs a static pod without ``metadata.uid`` has computed its UID: from the manifest as its version decodes
it, the node's name, the manifest's path and, by defaults, the feature gates. Another of its minor version computes the
same from the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest, NodeName
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet

RECORD = PurePosixPath("/var/lib/nodeupgrade/static-pods.json")
"""On the node, beside the runs; without it a line stays until somebody takes it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnUid:
    """The UID that a kubelet computed for a static pod."""

    node: NodeName
    path: str  # the manifest
    manifest: Digest  # digest of the manifest, which named no UID
    uid: str
    version: str  # the kubelet's
    gates: tuple[str, ...] = ()  # its feature gates, as far as they are set, each as ``name=true`` or ``name=false``


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnUids:
    """All that is known on a node; one for each manifest."""

    known: tuple[OwnUid, ...] = ()

    def of(self, path: str, uid: str, node: NodeName) -> OwnUid | None:
        """Return what is known about a manifest whose pod runs under a UID; ``None`` if that is nothing."""
        return next((own for own in self.known if (own.path, own.uid, own.node) == (path, uid, node)), None)


def is_computed_again(own: OwnUid, manifest: bytes, target: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    """Report whether a kubelet would compute the same UID from a manifest that names none."""
    try:
        was = KubeletVersion.parse(own.version)
    except UnsupportedKubelet:
        return False
    same_kubelet = (was.major, was.minor) == (target.major, target.minor) and own.gates == render_gates(gates)
    return same_kubelet and own.manifest == sha256(manifest).hexdigest()


def render_gates(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return feature gates as `OwnUid` has them."""
    return tuple(sorted(f"{name}={str(on).lower()}" for name, on in gates.items()))
