"""Checks of how pods are confined: seccomp profiles, user namespaces, supplementary groups."""

from collections.abc import Iterator, Mapping
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.resources import DEFAULT_MAX_PODS
from nodeupgrade.text import parse_json

IDS_PER_POD = 65536


@check(Reason.CONTAINER_WOULD_NOT_RESTART, Hazard.SECCOMP_PROFILE_MISSING)
def seccomp_profiles_are_there(facts: Admission) -> Iterator[Found]:
    """The node has every seccomp profile that a pod names; a running container needs no file, the next one does."""
    without = [str(pod.ref) for pod in facts.admitted() if set(seccomp_profiles(pod)) - facts.host.seccomp]
    if without:
        missing = {name for pod in facts.admitted() for name in seccomp_profiles(pod)} - facts.host.seccomp
        yield (
            f"{counted(len(missing), 'seccomp profile')} not on the node ({named(sorted(missing))}), so containers of "
            f"{counted(len(without), 'pod')} could not be started again: {named(without)}; put the files below the "
            "kubelet's directory seccomp"
        )


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Reason.CONTAINER_WOULD_NOT_RESTART,
    Hazard.USER_NAMESPACE_IMPOSSIBLE,
    history.USER_NAMESPACES,
    history.USER_NAMESPACES_BY_DEFAULT,
    history.USER_IDS_LISTED,
    acceptable=False,
)
def user_namespaces_are_recorded(facts: Admission) -> Iterator[Found]:
    """Every user namespace is recorded on disk as the kubelet writes it; with a damaged record no kubelet starts.

    Without a record the kubelet regards the user IDs of a running pod as free, and gives them to another one. The first
    kubelet that looks for the IDs of the host's user `kubelet` does not start without the program that lists them, nor
    with IDs that do not suffice for all pods or that are not those of the records.
    """
    version = next((each for each in facts.starting if _has_user_namespaces(facts, each)), None)
    if version is None:
        return
    listed = (each is not None and _lists_user_ids(facts, each) for each in (facts.current, facts.target))
    begins = tuple(listed) == (False, True)
    if begins:
        yield from _unlisted(facts)
    per_pod, holders = _ids_per_pod(facts), dict[int, Pod]()
    for pod in _with_user_namespace(facts):
        record = facts.host.namespaces.get(pod.ref.uid)
        first = None if record is None else _first_id(record, per_pod)
        if first is not None and first not in holders:
            holders[first] = pod
            if begins and not facts.host.user_ids.holds(first, per_pod):
                detail = (
                    f"its user namespace has user IDs from {first} on, which are not those of the user kubelet, so "
                    f"kubelet {facts.target} would not start ({history.USER_IDS_LISTED.reference}); delete the pod"
                )
                yield pod, detail
        elif record is not None:
            what = "has an unknown format" if first is None else f"names the user IDs of {holders[first].ref} too"
            yield pod, f"the record of its user namespace {what}, so kubelet {version} would not start; delete the pod"
        elif facts.current is not None and _has_user_namespaces(facts, facts.current):
            detail = (
                f"there is no record of its user namespace, so kubelet {version} could give its user IDs to another "
                "pod, and could not start its containers again; delete the pod"
            )
            yield Finding(
                reason=Reason.CONTAINER_WOULD_NOT_RESTART, subject=str(pod.ref), detail=detail, severity=Severity.REFUSE
            )


@check(
    Reason.CONTAINER_WOULD_NOT_RESTART,
    Hazard.USER_NAMESPACE_IMPOSSIBLE,
    history.USER_NAMESPACES,
    history.USER_NAMESPACES_BY_DEFAULT,
)
def user_namespaces_stay_as_they_are(facts: Admission) -> Iterator[Found]:
    """Both kubelets give user namespaces to pods that ask for them, or neither does."""
    before = facts.current is not None and _has_user_namespaces(facts, facts.current)
    after = _has_user_namespaces(facts, facts.target)
    pods = [str(pod.ref) for pod in _with_user_namespace(facts)]
    if pods and facts.current is not None and before != after:
        yield (
            f"user namespaces are {'on' if after else 'off'} with kubelet {facts.target}, unlike with {facts.current}, "
            f"so it could not start containers of {counted(len(pods), 'pod')} with hostUsers: false again: "
            f"{named(pods)}; delete them soon, or set the feature gate UserNamespacesSupport"
        )


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.GROUPS_POLICY_UNKNOWN, history.GROUPS_POLICY_CHECKED)
def groups_policy_is_supported(facts: Admission) -> Iterator[Found]:
    """The Node says that it supports ``supplementalGroupsPolicy: Strict``, if a pod asks for it."""
    version = next((each for each in facts.starting if history.GROUPS_POLICY_CHECKED.applies_to(each)), None)
    features = (facts.node.get("status") or {}).get("features") or {}
    if version is None or features.get("supplementalGroupsPolicy") is True:
        return
    for pod in facts.admitted():
        context = pod.spec.get("securityContext") or {}
        if context.get("supplementalGroupsPolicy") == "Strict":
            detail = (
                "it asks for supplementalGroupsPolicy: Strict, which the node does not report to support "
                f"(status.features), so kubelet {version} would kill it (SupplementalGroupsPolicyNotSupported); "
                "delete the pod first, or use a runtime that supports it"
            )
            yield pod, detail


def seccomp_profiles(pod: Pod) -> Iterator[str]:
    """Yield the seccomp profiles that a pod expects to be on the node."""
    for context in security_contexts(pod):
        profile = context.get("seccompProfile") or {}
        if profile.get("type") == "Localhost" and profile.get("localhostProfile"):
            yield str(profile["localhostProfile"])


def security_contexts(pod: Pod) -> Iterator[Json]:
    """Yield the security contexts of a pod and of its containers, except ephemeral ones."""
    containers = (container.spec for container in pod.containers if container.role is not Role.EPHEMERAL)
    for holder in (pod.spec, *containers):
        yield holder.get("securityContext") or {}


def has_user_namespace(pod: Pod) -> bool:
    """Report whether a pod asks for a user namespace of its own."""
    return pod.spec.get("hostUsers") is False


def _with_user_namespace(facts: Admission) -> Iterator[Pod]:
    """Return the pods that run with a user namespace, as far as the API shows; a manifest does not show it."""
    return (pod for pod in facts.admitted() if has_user_namespace(pod) and (pod.running or pod.from_manifest))


def _has_user_namespaces(facts: Admission, version: KubeletVersion) -> bool:
    by_default = history.USER_NAMESPACES_BY_DEFAULT.applies_to(version)
    older = facts.gates.get("UserNamespacesStatelessPodsSupport", by_default)
    return history.USER_NAMESPACES.applies_to(version) and facts.gates.get("UserNamespacesSupport", older)


def _lists_user_ids(facts: Admission, version: KubeletVersion) -> bool:
    return history.USER_IDS_LISTED.applies_to(version) and _has_user_namespaces(facts, version)


def _unlisted(facts: Admission) -> Iterator[Found]:
    """Say why the new kubelet, the first to look, finds no IDs that suffice."""
    would = f"so kubelet {facts.target} would not start ({history.USER_IDS_LISTED.reference})"
    per_pod = _ids_per_pod(facts)
    if facts.host.lacks_getsubids:
        yield (
            f"the host has a user kubelet but no program getsubids, {would}; install it and give that user IDs, or "
            "remove the user"
        )
    elif unfit := facts.host.user_ids.unfit(per_pod, _most_pods(facts)):
        yield (
            f"the host's user kubelet {unfit}, {would}; give it one range in /etc/subuid, and the same one in "
            f"/etc/subgid, that begins at a multiple of {per_pod} and has {per_pod} IDs for each pod of maxPods, or "
            "remove the user"
        )


def _most_pods(facts: Admission) -> int:
    try:
        return facts.settings.number("max-pods", "maxPods", DEFAULT_MAX_PODS)
    except ValueError:
        return 0


def _ids_per_pod(facts: Admission) -> int:
    """Return the setting; the default also for what no kubelet accepts."""
    section = facts.settings.document.get("userNamespaces")
    given = section.get("idsPerPod") if isinstance(section, Mapping) else None
    return given if isinstance(given, int) and given >= IDS_PER_POD else IDS_PER_POD


def _first_id(record: bytes, length: int) -> int | None:
    """Return the first user ID of a record; ``None`` if a kubelet would not accept it."""
    try:
        document = parse_json(record)
        (users,), (groups,) = document["uidMappings"], document["gidMappings"]
        return _first_of(users, length) if users == groups else None
    except (ValueError, TypeError, KeyError):
        return None


def _first_of(mapping: Any, length: int) -> int | None:
    first = mapping["hostId"]
    known = isinstance(first, int) and mapping["containerId"] == 0
    return first if known and mapping["length"] == length and first % length == 0 else None
