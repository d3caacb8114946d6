"""Every change between kubelet minors that affects container hashes, QoS classes or the UIDs of static pods.

The order is: how changes are declared, hash algorithms, sidecars and resizes, QoS classes, UIDs of static pods, eras.
Fields that releases added are in the table of `schema` instead. To support a new Kubernetes minor, raise NEWEST_MINOR
after the checks in docs/hash-eras.md ("A new minor").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .errors import UnsupportedKubelet
from .kubelet_version import KubeletVersion

OLDEST_MINOR = 5
NEWEST_MINOR = 37

_KUBERNETES = "https://github.com/kubernetes/kubernetes"
_ENHANCEMENTS = "https://github.com/kubernetes/enhancements"


@dataclass(frozen=True, slots=True)
class MinorChange:
    """Behaviour that applies from one Kubernetes minor on, and possibly only up to another."""

    first: int  # the first minor to which it applies
    link: str  # the upstream issue, pull request or enhancement
    what: str  # the behaviour, as a sentence
    last: int | None = None  # the last such minor; `None` if it still applies to the newest

    def covers(self, minor: int) -> bool:
        """Report whether the change applies to a minor of Kubernetes 1."""
        return self.first <= minor and (self.last is None or minor <= self.last)

    def applies_to(self, version: KubeletVersion) -> bool:
        """Report whether the change applies to a version."""
        release = (version.major, version.minor)
        return (1, self.first) <= release and (self.last is None or release <= (1, self.last))

    def begins_between(self, before: KubeletVersion | None, after: KubeletVersion | None) -> bool:
        """Report whether the change applies to ``after`` but not to ``before``; False if either is unknown."""
        return before is not None and after is not None and self.applies_to(after) and not self.applies_to(before)

    @property
    def since(self) -> str:
        """The first minor as people write it: `1.30`."""
        return f"1.{self.first}"

    @property
    def reference(self) -> str:
        """The link in short form, for messages: `kubernetes #40495`."""
        return reference(self.link)


def reference(link: str) -> str:
    """Shorten a link to an issue or a pull request for messages, as in `kubernetes #40495`."""
    _, _, project, _, number = link.rsplit("/", 4)
    return f"{project} #{number}"


def pull(number: int) -> str:
    """Return the URL of a Kubernetes pull request."""
    return f"{_KUBERNETES}/pull/{number}"


def issue(number: int) -> str:
    """Return the URL of a Kubernetes issue."""
    return f"{_KUBERNETES}/issues/{number}"


def enhancement(number: int) -> str:
    """Return the URL of a Kubernetes enhancement (KEP)."""
    return f"{_ENHANCEMENTS}/issues/{number}"


def known_kubelets(since: MinorChange | None = None) -> tuple[KubeletVersion, ...]:
    """Return every minor whose hashes are known, oldest first; with ``since``, only those to which it applies."""
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    return tuple(KubeletVersion(1, minor) for minor in minors if since is None or since.covers(minor))


VERSIONED_STRUCT = MinorChange(
    6,
    pull(40495),
    "The hash is FNV-1a of the `v1.Container` struct printed by go-spew, no longer Adler-32 of an internal type.",
)
JSON_HASHED = MinorChange(
    16, pull(57741), "The container's JSON is hashed, so that new fields matter only to pods that set them."
)
NAME_AND_IMAGE_HASHED = MinorChange(31, pull(124220), "Only the container's name and image are hashed.")
RESOURCELESS_HASH = MinorChange(
    27, pull(102884), "With InPlacePodVerticalScaling on, a second hash leaves the container's resources out.", last=30
)


SIDECARS = MinorChange(28, enhancement(753), "Init containers may have `restartPolicy: Always`: sidecars.")
SIDECARS_COMPARED = MinorChange(
    32, pull(126525), "The hash of a running sidecar is compared; earlier kubelets ignored it."
)
RESIZE_POLICY_ACTED_ON = MinorChange(
    33,
    enhancement(1287),
    "A running container's resources are compared with a record of the kubelet's own, which older ones did not "
    "keep; `resizePolicy: RestartContainer` then restarts it once.",
)
STATIC_PODS_RESIZED = MinorChange(36, pull(135856), "The resources of static pods are compared as well.")
POD_RESOURCES_ALLOCATED = MinorChange(
    36,
    enhancement(5419),
    "By default, resources of the pod itself are taken from a record of the kubelet's own, in which older ones did not "
    "write them, and their limits are compared for containers that have none.",
)


HUGE_PAGES_COUNT = MinorChange(8, enhancement(275), "Huge pages count for the QoS class.", last=9)
INIT_CONTAINERS_COUNT = MinorChange(16, pull(75223), "Init containers count for the QoS class.")
STATUS_TRUSTED = MinorChange(29, pull(119665), "The QoS class in a pod's status is used as it is.")
POD_RESOURCES_COUNT = MinorChange(
    34, enhancement(2837), "Resources of the pod itself take precedence over those of its containers for the QoS class."
)
POD_RESOURCES_COUNT_ONLY_IF_SET = MinorChange(
    37, enhancement(2837), "Empty resources of the pod itself do not count, and the API server fills in their requests."
)
EACH_CONTAINER_MUST_MATCH = MinorChange(
    37, enhancement(2837), "A pod is Guaranteed only if each of its containers is by itself."
)


HOST_AND_FILE_IN_STATIC_UID = MinorChange(
    21, pull(87461), "The UID of a static pod depends on the names of the node and the manifest file."
)
STATIC_UID_BY_FNV = MinorChange(35, pull(133511), "The UID of a static pod is a 128-bit FNV-1a instead of MD5.")
SAME_POD_TYPES = frozenset({(16, 17), (19, 20), (21, 22), (28, 29)})
"""Pairs of minors between which no field of the pod types changed. Inferred from the types, not observed."""


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
