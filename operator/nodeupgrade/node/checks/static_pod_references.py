"""Checks of static pods: newer kubelets reject some that refer to objects of the API, or that have certain values."""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import is_on
from nodeupgrade.kubelethash.changes import MinorChange
from nodeupgrade.node.checks.facts import Admission

_GATE = "PreventStaticPodAPIReferences"
_BY_THEMSELVES = frozenset(
    {
        "awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume",
        "flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk",
        "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
    }
)  # fmt: skip
"""The kinds of volumes that need nothing from the API, unless they name a Secret."""
_VARIABLES = (("configMapKeyRef", "a ConfigMap"), ("secretKeyRef", "a Secret"))
_ALL_VARIABLES = (("configMapRef", "a ConfigMap"), ("secretRef", "a Secret"))


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.STATIC_POD_REFUSED, history.STATIC_PODS_BY_THEMSELVES)
def static_pods_stand_alone(facts: Admission) -> Iterator[Found]:
    """No static pod refers to an object of the API, where a kubelet that may start does not run such pods."""
    refusing = history.STATIC_PODS_BY_THEMSELVES
    version = next((each for each in facts.starting if refusing.applies_to(each)), None)
    if version is None or facts.gates.get(_GATE) is False:
        return
    for pod in facts.admitted():
        if pod.from_manifest and (reference := _reference(pod)) is not None:
            detail = (
                f"it is a static pod and refers to {reference}, so kubelet {version} would kill it and not run it "
                f"again ({refusing.reference}); remove the reference from its manifest"
            )
            yield pod, detail


def _reference(pod: Pod) -> str | None:
    """Return the kind of the first object of the API that a static pod refers to, or ``None``."""
    spec = pod.spec
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        return "a ServiceAccount"
    if spec.get("imagePullSecrets"):
        return "a Secret"
    if spec.get("resourceClaims"):
        return "a ResourceClaim"
    for container in pod.containers:
        if (found := _in_environment(container.spec)) is not None:
            return found
    return next((found for volume in spec.get("volumes") or () if (found := _in_volume(volume)) is not None), None)


def _in_environment(container: Json) -> str | None:
    sources = [(variable.get("valueFrom") or {}, _VARIABLES) for variable in container.get("env") or ()]
    sources += [(source, _ALL_VARIABLES) for source in container.get("envFrom") or ()]
    return next((what for source, kinds in sources for key, what in kinds if source.get(key)), None)


def _in_volume(volume: Json) -> str | None:
    kinds = {key: value for key, value in volume.items() if key != "name" and value is not None}
    if "projected" in kinds:
        sources = [source for each in kinds["projected"].get("sources") or () for source in each]
        return next((f"{each} in a projected volume" for each in sources if each != "downwardAPI"), None)
    if any(isinstance(source, dict) and source.get("secretRef") for source in kinds.values()):
        return "a Secret"
    return next((f"{kind} in a volume" for kind in kinds if kind not in _BY_THEMSELVES), None)


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    Hazard.STATIC_POD_REFUSED,
    history.UNMASKED_NEEDS_USERS,
    history.STRICT_ADDRESSES,
    history.INIT_NOT_RESIZED,
)
def static_pods_stay_valid(facts: Admission) -> Iterator[Found]:
    """No static pod has a value that the new kubelet is the first to refuse; it would end what runs by its cgroup."""
    strict = is_on(facts.gates, "StrictIPCIDRValidation", by_default=True)
    for change, find in _REFUSED.items():
        began = facts.current is not None and change.applies_to(facts.current)
        if began or not change.applies_to(facts.target) or (change is history.STRICT_ADDRESSES and not strict):
            continue
        for pod in facts.admitted():
            if pod.static and (what := find(pod)) is not None:
                detail = (
                    f"it is a static pod and has {what}, so kubelet {facts.target} would kill it and not run it again "
                    f"({change.reference}); correct its manifest"
                )
                yield pod, detail


def _unmasked(pod: Pod) -> str | None:
    kinds = ((container.spec.get("securityContext") or {}).get("procMount") for container in pod.containers)
    refused = pod.spec.get("hostUsers") is not False and "Unmasked" in kinds
    return "procMount: Unmasked without hostUsers: false" if refused else None


def _ambiguous_address(pod: Pod) -> str | None:
    """Return an address with leading zeros, which Python does not parse either, or of IPv4 as IPv6."""
    aliases, dns = pod.spec.get("hostAliases"), pod.spec.get("dnsConfig")
    servers = dns.get("nameservers") if isinstance(dns, Mapping) else None
    given = [each.get("ip") for each in aliases if isinstance(each, Mapping)] if isinstance(aliases, list) else []
    given += servers if isinstance(servers, list) else []
    return next((f"the address {each}" for each in map(str, given) if _is_ambiguous(each)), None)


def _is_ambiguous(address: str) -> bool:
    try:
        return getattr(ip_address(address), "ipv4_mapped", None) is not None
    except ValueError:
        return True


def _resized_init(pod: Pod) -> str | None:
    policies = (p for c in pod.containers if c.role is Role.INIT for p in c.spec.get("resizePolicy") or ())
    refused = any(policy.get("restartPolicy") == "RestartContainer" for policy in policies)
    return "resizePolicy: RestartContainer in an init container" if refused else None


_REFUSED: Mapping[MinorChange, Callable[[Pod], str | None]] = {
    history.UNMASKED_NEEDS_USERS: _unmasked,
    history.STRICT_ADDRESSES: _ambiguous_address,
    history.INIT_NOT_RESIZED: _resized_init,
}
