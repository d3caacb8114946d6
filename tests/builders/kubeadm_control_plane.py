"""A KubeadmControlPlane of one machine beside a real API server, whose node looks as if kubeadm had made it."""

from pathlib import Path

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import CONFIGMAPS, Resource
from tests.builders.certificates import self_signed
from tests.builders.cluster_api import OLD
from tests.builders.cluster_api_managers import (
    IN,
    LAB_TEMPLATES,
    SECRETS,
    Place,
    add_cluster,
    created,
    new,
    reference,
    secret,
    thing,
)
from tests.doubles.kube_fleet import FleetSimulator

PLANES = Resource("controlplane.cluster.x-k8s.io", "v1beta2", "kubeadmcontrolplanes", "KubeadmControlPlane", IN)
SYSTEM = "kube-system"
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def control_plane(name: str) -> Json:
    """Its etcd is somebody else's, which nobody looks at; with a surge of none, the machine itself is changed."""
    files = {"caFile": "/etc/etcd/ca.crt", "certFile": "/etc/etcd/client.crt", "keyFile": "/etc/etcd/client.key"}
    etcd = {"external": {"endpoints": ["https://127.0.0.1:2379"], **files}}
    return thing(
        PLANES,
        name,
        {
            "replicas": 1,
            "version": OLD,
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}},
            "machineTemplate": {"spec": {"infrastructureRef": reference(LAB_TEMPLATES, name)}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": etcd}},
        },
        name,
    )


async def add_control_plane(admin: KubeClient, place: Place, directory: Path, name: str) -> None:
    """Add a cluster whose control plane kubeadm has made, as far as the manager looks."""
    certificate, key = self_signed(new(directory / f"{name}-etcd"))
    await created(admin, SECRETS, secret(name, "etcd", **{"tls.crt": certificate}))
    client = {"tls.crt": certificate, "tls.key": key}
    await created(admin, SECRETS, secret(name, "apiserver-etcd-client", **client))
    configuration = f"apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: {OLD}\n"
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubeadm-config", "namespace": SYSTEM}}
    await created(admin, CONFIGMAPS.within(SYSTEM), {**body, "data": {"ClusterConfiguration": configuration}})
    await created(admin, PLANES, control_plane(name))
    await add_cluster(admin, place, name, reference(PLANES, name))


async def add_components(fleet: FleetSimulator, node: str) -> None:
    """Add the static pods of a control plane's node; one without them is replaced, and nobody is asked."""
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for component in COMPONENTS:
        labels = {"tier": "control-plane", "component": component}
        overrides = {"metadata": {"namespace": SYSTEM, "labels": labels}, **ready}
        await fleet.add_pod(f"{component}-{node}", node, overrides=overrides)
