"""Check of the API objects to which static pods refer: newer kubelets reject such pods."""

from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
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


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.STATIC_POD_REFERS_TO_API, history.STATIC_PODS_BY_THEMSELVES)
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
