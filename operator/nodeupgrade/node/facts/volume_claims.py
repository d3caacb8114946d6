"""Read PersistentVolumeClaims from the API server with the kubelet's own credentials. Changes nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from http import HTTPStatus
from pathlib import PurePosixPath
from urllib.parse import quote

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from nodeupgrade.node.checks.volumes import claims_of
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.node import HostView
from nodeupgrade.node.running_kubelet.kubelet import Answer
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import parse_json

PROTECTION = "kubernetes.io/pvc-protection"
LONGEST_SECONDS = 60.0
"""How long all claims of a node may take, which are as many as people have their pods use."""
UNLABELLED = frozenset({"flexVolume", "hostPath", "local", "nfs"})
"""Sources of PersistentVolumes that no kubelet mounts with an SELinux label."""
MIGRATED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
"""The CSI drivers of other sources, by source."""

Read = Callable[[str], Answer]
Label = Callable[[str], str | None]


class _Unfit(Exception):
    """What keeps a kubelet that starts from taking a claim for bound: a clause without its subject."""

    def __init__(self, clause: str, *, passes: bool = False) -> None:
        super().__init__(clause)
        self.passes = passes


def claims_that_came(host: HostView, facts: NodeFacts, came: Inventory, pods: Sequence[Pod]) -> NodeFacts:
    """Return the facts of an examination with the claims of pods that came since, as long as the kubelet runs.

    A stopped kubelet's credentials may not be at hand, and nobody waits for it. What cannot be read is left out: the
    kubelet has read it a moment ago, to set up the pods.
    """
    unit = host.services.status(facts.kubelet.unit.name)
    if unit.down:
        return facts
    about = replace(facts, pods=tuple(pods), inventory=came, kubelet=replace(facts.kubelet, unit=unit))
    claims = tuple(claim for claim in read_claims(host, about, labels=facts.around.selinux) if not claim.unread)
    return replace(facts, around=replace(facts.around, claims=claims))


def read_claims(host: HostView, facts: NodeFacts, *, labels: bool) -> Iterator[VolumeClaim]:
    """Read the claims of running pods as the kubelet does; stop at the first without an answer.

    Args:
        host: the node.
        facts: its pods, and its kubelet.
        labels: whether to find out which volumes may be mounted with a label.
    """
    kubeconfig, silence, passes = facts.readiness.layout.kubeconfig, "", False
    asked = [(pod, volume, name) for pod in facts.running_pods() for volume, name in claims_of(pod)]
    try:
        path = None if kubeconfig is None else PurePosixPath(kubeconfig)
        server = None if not asked or path is None else host.as_kubelet(path, facts.kubelet.unit.main_pid)
    except (StepFailed, Transient) as error:
        server, silence, passes = None, str(error), isinstance(error, Transient)
    read = None if server is None else cache(server.read)  # pods share claims, and claims a driver
    end = host.clock.monotonic() + LONGEST_SECONDS
    for pod, volume, name in asked:
        label = partial(_mounted_label, host.files, facts.readiness.layout.root, pod.ref.uid) if labels else None
        claim = VolumeClaim(pod=str(pod.ref), name=name, volume=volume)
        if read is None or silence:
            yield replace(claim, unread=silence or "it has no kubeconfig", passes=passes)
            continue
        try:
            yield _looked_up(read, claim, pod.ref.namespace, label)
        except Transient as error:
            silence, passes = str(error), True
            yield replace(claim, unread=silence, passes=passes)
        if host.clock.monotonic() > end:
            silence = silence or "the API server answers too slowly"  # another look would take as long


def _looked_up(read: Read, claim: VolumeClaim, namespace: str, label: Label | None) -> VolumeClaim:
    """Return a claim as a kubelet finds it that starts, and has nothing but the API server to learn it from.

    Args:
        label: tells with which label a volume was mounted; ``None`` if no label matters.
    """
    try:
        found = _object(read, f"/api/v1/namespaces/{_word(namespace)}/persistentvolumeclaims/{_word(claim.name)}")
        claim = replace(claim, deleting=found["metadata"].get("deletionTimestamp") is not None)
        _must_be_bound(found, deleting=claim.deleting)
        spec = _volume(read, found)
        modes = tuple(map(str, spec.get("accessModes") or ()))
        claim = replace(claim, access_modes=modes)
        if label is None:
            return claim
        takes = _takes_label(read, spec)
        mounted = None if takes is None else label(str(found["spec"]["volumeName"]))
        return replace(claim, takes_label=takes is not False, mounted_label=mounted)
    except _Unfit as error:
        return replace(claim, unfit=str(error), passes=error.passes)
    except OSError as error:
        return replace(claim, unread=str(error), passes=True)
    except (ValueError, KeyError, TypeError, AttributeError):
        return replace(claim, unread="the answer is not understood", passes=True)


def _must_be_bound(found: Json, *, deleting: bool) -> None:
    if deleting and PROTECTION not in (found["metadata"].get("finalizers") or ()):
        raise _Unfit(f"is being deleted without the finalizer {PROTECTION}")
    if (phase := found["status"].get("phase")) != "Bound":
        raise _Unfit(f"is {phase}, not Bound")
    if not found["spec"].get("volumeName"):
        raise _Unfit("names no PersistentVolume")


def _volume(read: Read, claim: Json) -> Json:
    """Return the spec of the PersistentVolume that a claim is bound to."""
    name, uid = str(claim["spec"]["volumeName"]), claim["metadata"]["uid"]
    try:
        spec: Json = _object(read, f"/api/v1/persistentvolumes/{_word(name)}")["spec"]
    except _Unfit as error:
        raise _Unfit(f"names the PersistentVolume {name}, which {error}", passes=error.passes) from error
    if (spec.get("claimRef") or {}).get("uid") != uid:
        raise _Unfit(f"names the PersistentVolume {name}, which is not bound to it")
    return spec


def _takes_label(read: Read, spec: Json) -> bool | None:
    """Report whether a PersistentVolume's plugin may mount it with a label; ``None`` if nobody says so."""
    migrated = next((driver for source, driver in MIGRATED.items() if source in spec), None)
    driver = migrated if (source := spec.get("csi")) is None else str(source["driver"])
    if driver is None:
        return not UNLABELLED & spec.keys()
    answer = read(f"/apis/storage.k8s.io/v1/csidrivers/{_word(driver)}")
    if answer.status != HTTPStatus.OK:
        return False if answer.status == HTTPStatus.NOT_FOUND else None
    return parse_json(answer.text)["spec"].get("seLinuxMount") is True


def _mounted_label(files: FilesView, root: str, pod: str, volume: str) -> str | None:
    """Return what the kubelet has noted when a CSI driver mounted a volume, as it reads it when it starts."""
    if any(PurePosixPath(name).name != name for name in (pod, volume)):
        return None
    try:
        data = files.read_state(PurePosixPath(root, "pods", pod, "volumes/kubernetes.io~csi", volume, "vol_data.json"))
        noted = {} if data is None else {"seLinuxMountContext": "", **parse_json(data)}
    except (StepFailed, ValueError, TypeError):
        return None
    label = noted.get("seLinuxMountContext")
    return label if isinstance(label, str) else None


def _object(read: Read, path: str) -> Json:
    answer = read(path)
    if answer.status in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
        # A node may read only what is bound to its pods, so it is not told which of the two it is. An API server that
        # has just started denies it, too, for a minute where there are many pods (kubernetes #92506).
        raise _Unfit(f"cannot be read by the kubelet (HTTP {answer.status})", passes=True)
    if answer.status != HTTPStatus.OK:
        raise OSError(f"HTTP {answer.status}")
    found: Json = parse_json(answer.text)
    return found


def _word(name: str) -> str:
    return quote(name, safe="")  # in a pod's spec, the name of a claim may be any text
