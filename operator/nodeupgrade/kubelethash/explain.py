"""Explains why two kubelets hash the same container differently, and what a plain kubelet swap would restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .changes import BEGAN_WITH, POD_RESOURCES_ALLOCATED, RESIZE_POLICY_ACTED_ON, Era, era_of, supported_minor
from .go.digest import HashValue
from .go.schema import CONTAINER, STRUCTS
from .hashing import hash_container
from .kubelet_version import KubeletVersion
from .pods import Pod, compared_containers, container_name, init_containers, pod_name, pod_spec, regular_containers
from .qos import qos_class
from .resize import resize_may_restart
from .static import static_uid_may_stay

_HASHED = {
    Era.A: "the Go struct's text with Adler-32",
    Era.B: "the Go struct's text with FNV-1a",
    Era.C: "the container's whole JSON",
    Era.D: "only the name and the image",
}
_INTRODUCED_BY = {era: change.reference for era, change in BEGAN_WITH.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HashChange:
    """One container whose hash differs between two kubelets."""

    container: str  # name of the container
    from_: KubeletVersion  # the old kubelet
    to: KubeletVersion  # the new kubelet
    old: HashValue  # the hash that the old kubelet computes
    new: HashValue  # the hash that the new kubelet computes
    # if both use the same algorithm, the fields of this container that only the newer of the two kubelets hashes, such
    # as `volumeMounts[].subPathExpr`. Before era C they count even if the container does not set them.
    fields: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Describe the change in one sentence."""
        if not self.fields:
            before, after = era_of(self.from_), era_of(self.to)
            changes = [_INTRODUCED_BY[era] for era in Era if min(before, after) < era <= max(before, after)]
            return (
                f"kubelet {self.from_.series} hashes {_HASHED[before]}, kubelet {self.to.series} hashes "
                f"{_HASHED[after]} ({', '.join(changes)})"
            )
        older, newer = sorted((self.from_, self.to))
        unset = ", set or not" if era_of(newer) < Era.C else ""
        return (
            f"kubelet {newer.series} hashes {_listed(self.fields)}{unset}; kubelet {older.series} "
            f"does not know {'them' if len(self.fields) > 1 else 'it'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChange:
    """The effects of a plain kubelet swap on one pod."""

    pod: str  # name of the pod
    # sentences on why the whole pod would be killed, sandbox included; empty if it would not
    whole_pod: tuple[str, ...]
    containers: tuple[HashChange, ...]  # the compared containers whose hash changes
    # the containers that may be restarted once because of their resize policy, whatever their hash
    resized: tuple[str, ...] = ()
    to: KubeletVersion  # the new kubelet

    def reasons(self, container: str) -> tuple[str, ...]:
        """Return why a container would restart, apart from ``whole_pod``; empty if it would not."""
        hashes = (each.sentence() for each in self.containers if each.container == container)
        resize = f"its resizePolicy says RestartContainer, so kubelet {self.to.series} may restart it once"
        return (*hashes, *([resize] if container in self.resized else ()))


def explain(
    container: Mapping[str, object], from_: KubeletVersion | str, to: KubeletVersion | str
) -> HashChange | None:
    """Explain why a container's hash differs between two kubelets; return None if it does not.

    Raises:
        UnsupportedKubelet: the tables do not cover one of the kubelets.
        UnhashableContainer: the container has a field whose hash is not certain.
    """
    before, after = KubeletVersion.of(from_), KubeletVersion.of(to)
    old, new = hash_container(container, before), hash_container(container, after)
    if old == new:
        return None
    name = container.get("name")
    return HashChange(
        container=name if isinstance(name, str) else "",
        from_=before,
        to=after,
        old=old,
        new=new,
        fields=_new_fields(container, before, after) if era_of(before) is era_of(after) else (),
    )


def explain_pod(pod: Pod, from_: KubeletVersion | str, to: KubeletVersion | str) -> PodChange:
    """Explain what a plain kubelet swap would restart in a pod whose containers are all running.

    Raises:
        HashError: as for `explain`, `compared_containers` and `qos_class`.
    """
    compared = set(compared_containers(pod, to))
    every = (*init_containers(pod), *regular_containers(pod))
    changes = [explain(each, from_, to) for each in every if container_name(pod, each) in compared]
    resources, static = pod_spec(pod).get("resources"), _is_mirror(pod)
    return PodChange(
        pod=pod_name(pod),
        whole_pod=tuple(_whole_pod_reasons(pod, from_, to)),
        containers=tuple(change for change in changes if change),
        resized=tuple(
            container_name(pod, each)
            for each in every
            if resize_may_restart(each, from_, to, pod_resources=resources, static=static)
        ),
        to=KubeletVersion.of(to),
    )


def _whole_pod_reasons(pod: Pod, from_: KubeletVersion | str, to: KubeletVersion | str) -> Iterator[str]:
    before, after = KubeletVersion.of(from_), KubeletVersion.of(to)
    known = {**pod, "status": None} if _is_mirror(pod) else pod  # kubelets see no status of static pods
    old, new = qos_class(known, before), qos_class(known, after)
    if old is new and _is_mirror(pod) and _begins_to_allocate(before, after):
        new = qos_class(known, after, forgets=True)
    if old is not new:
        yield (
            f"kubelet {before.series} counts the pod as {old}, kubelet {after.series} as {new}, "
            "and looks for its cgroup elsewhere"
        )
    if _is_mirror(pod) and not static_uid_may_stay(before, after):
        yield f"it is a static pod, and kubelet {after.series} gives it a new UID unless its manifest sets one"


def _begins_to_allocate(before: KubeletVersion, after: KubeletVersion) -> bool:
    """Report whether the new kubelet takes resources of pods themselves from a record that the old one kept without."""
    begins = POD_RESOURCES_ALLOCATED.begins_between(before, after)
    return begins and RESIZE_POLICY_ACTED_ON.applies_to(before)


def _is_mirror(pod: Pod) -> bool:
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and "kubernetes.io/config.mirror" in annotations


def _new_fields(container: Mapping[str, object], one: KubeletVersion, other: KubeletVersion) -> tuple[str, ...]:
    """Return the fields that, of two minors of one era, only the newer one hashes."""
    low, high = sorted((supported_minor(one), supported_minor(other)))
    even_unset = era_of(one) < Era.C
    paths = _fields_between(CONTAINER, container, low, high, even_unset=even_unset)
    return tuple(dict.fromkeys(path.removeprefix(".") for path in paths))


def _fields_between(struct: str, value: object, low: int, high: int, *, even_unset: bool) -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    for field in STRUCTS[struct]:
        item = value.get(field.key) if field.key else value
        here = f".{field.key}" if field.key else ""
        if field.since > high:
            continue
        if field.since > low:
            is_set = item is not None if field.type.startswith("*") else bool(item)
            if even_unset or is_set:
                yield here
            continue
        base = field.type.lstrip("*[]")
        if base not in STRUCTS:
            continue
        # A struct by value is printed with all its fields, even if the container does not set it.
        inner = {} if item is None and field.type == base else item
        many = isinstance(inner, list | tuple)
        for each in inner if isinstance(inner, list | tuple) else (inner,):
            suffix = "[]" if many else ""
            for path in _fields_between(base, each, low, high, even_unset=even_unset):
                yield f"{here}{suffix}{path}"


def _listed(fields: tuple[str, ...]) -> str:
    return fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
