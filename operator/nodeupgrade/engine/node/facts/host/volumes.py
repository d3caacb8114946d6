"""Gather what is known about the node's volumes. Changes nothing."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.volumes import VolumeClaim, Volumes, claims_of, heeds_deletion
from nodeupgrade.domain.node.host.mounted_volumes import mounted_volumes
from nodeupgrade.engine.node.facts.readiness import mounts
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.ports.node.kubelet import AsKubelet

SELINUX = PurePosixPath("/sys/fs/selinux/enforce")


def look(host: HostView, facts: NodeFacts) -> Volumes:
    """Gather the facts about volumes that are not known yet."""
    return Volumes(
        mounted=mounted_volumes(mounts(host.files)),
        claims=tuple(_claims(host, facts)) if heeds_deletion(facts.target, facts.kubelet.current) else (),
        selinux=(host.files.read(SELINUX) or b"").strip() == b"1",
    )


def _claims(host: HostView, facts: NodeFacts) -> Iterator[VolumeClaim]:
    """Read the claims of running pods as the kubelet does; after the first that gets no answer, ask for no more."""
    kubeconfig, silence = facts.readiness.layout.kubeconfig, ""
    asked = [(pod, name) for pod in facts.running_pods() for name in claims_of(pod)]
    try:
        server = host.as_kubelet(PurePosixPath(kubeconfig)) if asked and kubeconfig is not None else None
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
        deleting = json.loads(answer.text)["metadata"].get("deletionTimestamp") is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        return VolumeClaim(pod=pod, name=name, unread="the answer is not understood")
    return VolumeClaim(pod=pod, name=name, deleting=deleting)
