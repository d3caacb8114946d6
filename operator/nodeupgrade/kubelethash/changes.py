"""What changed between kubelets that container hashes, QoS classes and static UIDs depend on: every minor, said once.

To admit a new Kubernetes minor, raise NEWEST_MINOR, after the checks in docs/hash-eras.md ("A new minor"). Only the
fields that a release brought are elsewhere, in the table of `schema`.
"""

from dataclasses import dataclass

from .version import KubeletVersion

OLDEST_MINOR = 5
NEWEST_MINOR = 37

_KUBERNETES = "https://github.com/kubernetes/kubernetes"
_ENHANCEMENTS = "https://github.com/kubernetes/enhancements"


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorChange:
    """Something that holds from one minor of Kubernetes on, and perhaps only up to another.

    Attributes:
        what: what holds, as a sentence.
        link: where upstream says so.
        first: the first minor for which it holds.
        last: the last one; `None` while it holds for the newest.
    """

    what: str
    link: str
    first: int
    last: int | None = None

    def covers(self, minor: int) -> bool:
        """Whether it holds for a minor of Kubernetes 1."""
        return self.first <= minor and (self.last is None or minor <= self.last)

    def applies_to(self, version: KubeletVersion) -> bool:
        """Whether it holds for a version."""
        release = (version.major, version.minor)
        return (1, self.first) <= release and (self.last is None or release <= (1, self.last))

    def begins_between(self, before: KubeletVersion | None, after: KubeletVersion | None) -> bool:
        """Whether it holds for the second of two versions and not for the first; of an unknown one nobody can tell."""
        return before is not None and after is not None and self.applies_to(after) and not self.applies_to(before)

    @property
    def since(self) -> str:
        """The first minor as people say it: `1.30`."""
        return f"1.{self.first}"

    @property
    def reference(self) -> str:
        """The link in short, for messages: `kubernetes #40495`."""
        return reference(self.link)


def reference(link: str) -> str:
    """An issue or a pull request as messages name it, such as `kubernetes #40495`."""
    _, _, project, _, number = link.rsplit("/", 4)
    return f"{project} #{number}"


def pull(number: int) -> str:
    """The address of a pull request of Kubernetes."""
    return f"{_KUBERNETES}/pull/{number}"


def issue(number: int) -> str:
    """The address of an issue of Kubernetes."""
    return f"{_KUBERNETES}/issues/{number}"


def enhancement(number: int) -> str:
    """The address of a Kubernetes enhancement (KEP)."""
    return f"{_ENHANCEMENTS}/issues/{number}"


def known_kubelets(since: MinorChange | None = None) -> tuple[KubeletVersion, ...]:
    """Every minor whose hashes are known, oldest first; with a change, only those for which it holds."""
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    return tuple(KubeletVersion(1, minor) for minor in minors if since is None or since.covers(minor))


# --- how a container is hashed -----------------------------------------------------------------------------------

VERSIONED_STRUCT = MinorChange(
    what="The hash is FNV-1a of the `v1.Container` struct printed by go-spew, no longer Adler-32 of an internal type.",
    link=pull(40495),
    first=6,
)
JSON_HASHED = MinorChange(
    what="The container's JSON is hashed, so that new fields matter only to pods that set them.",
    link=pull(57741),
    first=16,
)
NAME_AND_IMAGE_HASHED = MinorChange(
    what="Only the container's name and image are hashed.",
    link=pull(124220),
    first=31,
)
RESOURCELESS_HASH = MinorChange(
    what="With InPlacePodVerticalScaling on, a second hash leaves the container's resources out.",
    link=pull(102884),
    first=27,
    last=30,
)

# --- what is compared --------------------------------------------------------------------------------------------

SIDECARS = MinorChange(
    what="Init containers may have `restartPolicy: Always`: sidecars.",
    link=enhancement(753),
    first=28,
)
SIDECARS_COMPARED = MinorChange(
    what="The hash of a running sidecar is compared; before, nobody looked at it.",
    link=pull(126525),
    first=32,
)
RESIZE_POLICY_ACTED_ON = MinorChange(
    what="A running container's resources are compared with a record of the kubelet's own, which older ones did not "
    "keep; `resizePolicy: RestartContainer` then restarts it once.",
    link=enhancement(1287),
    first=33,
)

# --- the QoS class, which is part of the path of a pod's cgroup ----------------------------------------------------

HUGE_PAGES_COUNT = MinorChange(
    what="Huge pages count for the QoS class.",
    link=enhancement(275),
    first=8,
    last=9,
)
INIT_CONTAINERS_COUNT = MinorChange(
    what="Init containers count for the QoS class.",
    link=pull(75223),
    first=16,
)
STATUS_TRUSTED = MinorChange(
    what="The QoS class in a pod's status is taken as it is.",
    link=pull(119665),
    first=29,
)
POD_RESOURCES_COUNT = MinorChange(
    what="Resources of the pod itself come before those of its containers for the QoS class.",
    link=enhancement(2837),
    first=34,
)
POD_RESOURCES_COUNT_ONLY_IF_SET = MinorChange(
    what="Empty resources of the pod itself do not count, and the API server fills in their requests.",
    link=enhancement(2837),
    first=37,
)
EACH_CONTAINER_MUST_MATCH = MinorChange(
    what="A pod is Guaranteed only if each of its containers is by itself.",
    link=enhancement(2837),
    first=37,
)

# --- the UID of a static pod -------------------------------------------------------------------------------------

HOST_AND_FILE_IN_STATIC_UID = MinorChange(
    what="The names of node and file go into the UID of a static pod.",
    link=pull(87461),
    first=21,
)
STATIC_UID_BY_FNV = MinorChange(
    what="The UID of a static pod is a 128-bit FNV-1a instead of MD5.",
    link=pull(133511),
    first=35,
)
SAME_POD_TYPES = frozenset({(16, 17), (19, 20), (21, 22), (28, 29)})
"""Steps across which no field of the pod types changed. Inferred from the types, not observed."""
