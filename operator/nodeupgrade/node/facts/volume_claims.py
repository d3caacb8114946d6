"""Read PersistentVolumeClaims from the API server with the kubelet's own credentials. Changes nothing."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from nodeupgrade.node.checks.volumes import claims_of
from nodeupgrade.node.node import HostView
from nodeupgrade.node.running_kubelet.kubelet import AsKubelet
from nodeupgrade.text import parse_json


def read_claims(host: HostView, facts: NodeFacts) -> Iterator[VolumeClaim]:
    """Read the claims of running pods as the kubelet does; stop at the first without an answer."""
    kubeconfig, silence = facts.readiness.layout.kubeconfig, ""
    asked = [(pod, name) for pod in facts.running_pods() for name in claims_of(pod)]
    try:
        path = None if kubeconfig is None else PurePosixPath(kubeconfig)
        server = None if not asked or path is None else host.as_kubelet(path, facts.kubelet.unit.main_pid)
    except StepFailed as error:
        server, silence = None, str(error)
    for pod, name in asked:
        subject = str(pod.ref)
        if server is None or silence:
            yield VolumeClaim(pod=subject, name=name, unread=silence or "it has no kubeconfig")
            continue
        try:
            yield _read(server, pod.ref.namespace, name, subject)
        except Transient as error:
            silence = str(error)
            yield VolumeClaim(pod=subject, name=name, unread=silence)


def _read(server: AsKubelet, namespace: str, name: str, pod: str) -> VolumeClaim:
    answer = server.read(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
    if answer.status != HTTPStatus.OK:
        return VolumeClaim(pod=pod, name=name, unread=f"HTTP {answer.status}")
    try:
        deleting = parse_json(answer.text)["metadata"].get("deletionTimestamp") is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        return VolumeClaim(pod=pod, name=name, unread="the answer is not understood")
    return VolumeClaim(pod=pod, name=name, deleting=deleting)
