"""Checks of volumes: would the new kubelet find every volume that is mounted, and leave it alone?

Everything is taken from the node's mount table, from the pods and from the Node. PersistentVolumeClaims are read only
for kubelets that unmount volumes because of them.
"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.volumes.claims import claims_are_kept, volumes_are_attached
from nodeupgrade.domain.node.checks.volumes.facts import NO_VOLUMES, VolumeClaim, Volumes
from nodeupgrade.domain.node.checks.volumes.places import (
    volumes_keep_their_label,
    volumes_keep_their_place,
    volumes_keep_their_plugin,
)

__all__ = ["CHECKS", "NO_VOLUMES", "WARNINGS", "VolumeClaim", "Volumes"]

CHECKS: tuple[Check[Volumes], ...] = (volumes_keep_their_place, volumes_keep_their_plugin, claims_are_kept)
WARNINGS: tuple[Check[Volumes], ...] = (volumes_keep_their_label, volumes_are_attached)
