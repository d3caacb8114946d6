"""The UIDs that a kubelet computes by itself. They show later that the UID in a manifest is no longer needed.

A kubelet computes the UID of a static pod without ``metadata.uid`` from the manifest as its version decodes it, the
node's name, the manifest's path and, by defaults, the feature gates; every kubelet of a minor version does it alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest, NodeName
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet

RECORD = PurePosixPath("/var/lib/nodeupgrade/static-pods.json")
"""On the node, beside the runs; without it, a UID stays in its manifest until it is removed by hand."""


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
    """The known UIDs of a node, one for each manifest."""

    known: tuple[OwnUid, ...] = ()

    def of(self, path: str, uid: str, node: NodeName) -> OwnUid | None:
        """Return the known UID for a manifest whose pod runs under ``uid``; ``None`` if there is none."""
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
