"""Eras: which hash algorithm a kubelet uses. Only its minor matters; no patch release ever changed the algorithm."""

from collections.abc import Mapping
from enum import StrEnum

from .changes import (
    JSON_HASHED,
    NAME_AND_IMAGE_HASHED,
    NEWEST_MINOR,
    OLDEST_MINOR,
    VERSIONED_STRUCT,
    MinorChange,
)
from .errors import UnsupportedKubelet
from .version import KubeletVersion


class Era(StrEnum):
    """Kubelet minors that share one hash algorithm; the hashed fields may still differ within an era."""

    A = "A"
    """1.5: Adler-32 of the internal container type, printed by go-spew."""
    B = "B"
    """1.6-1.15: FNV-1a 32 of v1.Container, printed by go-spew (kubernetes #40495)."""
    C = "C"
    """1.16-1.30: FNV-1a 32 of the container's JSON, its bytes printed by go-spew (kubernetes #57741)."""
    D = "D"
    """1.31 and newer: as C, but of name and image only (kubernetes #124220)."""


BEGAN_WITH: Mapping[Era, MinorChange] = {
    Era.D: NAME_AND_IMAGE_HASHED,
    Era.C: JSON_HASHED,
    Era.B: VERSIONED_STRUCT,
}
"""The change that began each era except the first, newest first."""


def era_of(kubelet: KubeletVersion | str) -> Era:
    """Return the era of a kubelet.

    Raises:
        UnsupportedKubelet: the minor is older or newer than the tables cover, or the version is a pre-release.
    """
    return era_of_minor(supported_minor(kubelet))


def era_of_minor(minor: int) -> Era:
    """Return the era of a minor that `supported_minor` returned."""
    return next((era for era, change in BEGAN_WITH.items() if change.covers(minor)), Era.A)


def supported_minor(kubelet: KubeletVersion | str) -> int:
    """Return the minor of a kubelet whose hashes are known.

    Raises:
        UnsupportedKubelet: as for `era_of`.
    """
    version = KubeletVersion.of(kubelet)
    if version.major != 1 or version.minor > NEWEST_MINOR:
        raise UnsupportedKubelet(
            str(version), f"the newest kubelet known here is 1.{NEWEST_MINOR}; use a newer nodeupgrade"
        )
    if version.minor < OLDEST_MINOR:
        raise UnsupportedKubelet(str(version), f"the oldest kubelet known here is 1.{OLDEST_MINOR}")
    if version.is_pre_release:
        raise UnsupportedKubelet(str(version), "a pre-release may still hash like the minor before it; use a release")
    return version.minor
