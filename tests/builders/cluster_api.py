"""Objects of Cluster API and the requests of its hooks, as version 1.14.2 writes them."""

from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.capi.rollouts import Rollouts

OLD, NEW = "v1.30.14", "v1.33.13"
NAMESPACE, DEPLOYMENT = "clusters", "workers"
UPDATING = {
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress": "",
    "runtime.cluster.x-k8s.io/pending-hooks": "UpdateMachine",
}
ARTIFACT: Json = {"preStaged": {"linux-amd64": {"path": "/opt/kubelet", "sha256": "a" * 64}}}
ROLLOUTS = Rollouts(artifacts={NEW: ARTIFACT}, spec={"verify": {"settle": "10s"}})


def labels(deployment: str | None = DEPLOYMENT, *, control_plane: bool = False) -> dict[str, str]:
    found = {"cluster.x-k8s.io/cluster-name": "one"}
    found |= {"cluster.x-k8s.io/deployment-name": deployment} if deployment else {}
    return found | ({"cluster.x-k8s.io/control-plane": ""} if control_plane else {})


def spec(version: str | None = OLD, **more: Any) -> Json:
    body: Json = {
        "clusterName": "one",
        "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "a"}},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabMachine", "name": "a"},
        "failureDomain": "a",
        **more,
    }
    return body if version is None else {**body, "version": version}


def machine(name: str, node: str | None = None, *, version: str = NEW, updating: bool = True, **of: Any) -> Json:
    """A Machine; one that is updated in place has the new version already."""
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels(**of),
            "annotations": UPDATING if updating else {},
        },
        "spec": spec(version),
        "status": {"nodeRef": {"name": node}} if node else {},
    }


def as_node_of(name: str) -> Json:
    """What a Node has of its Machine."""
    annotations = {"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": NAMESPACE}
    return {"metadata": {"annotations": annotations}}


def request(hook: str, **body: Json) -> Json:
    return {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": f"{hook}Request", "settings": {}, **body}


def update_machine(name: str, version: str = NEW) -> Json:
    body = {key: value for key, value in machine(name, version=version).items() if key != "status"}
    return request("UpdateMachine", desired={"machine": body, "infrastructureMachine": other("LabMachine")})


def can_update_machine(before: Json, after: Json, **of: Any) -> Json:
    def objects(its: Json) -> Json:
        body = {**machine("m", **of), "spec": its}
        del body["status"]
        return {
            "machine": body,
            "infrastructureMachine": other("LabMachine"),
            "bootstrapConfig": other("KubeadmConfig"),
        }

    return request("CanUpdateMachine", current=objects(before), desired=objects(after))


def can_update_machine_set(before: Json | None = None, after: Json | None = None, **of: Any) -> Json:
    def objects(its: Json) -> Json:
        body = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineSet",
            "metadata": {"name": "workers-x7k2p", "namespace": NAMESPACE, "labels": labels(**of)},
            "spec": {
                "clusterName": "one",
                "replicas": 3,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": its},
            },
        }
        template = {"template": {"spec": {"image": "debian", "size": 2}}}
        return {
            "machineSet": body,
            "infrastructureMachineTemplate": other("LabMachineTemplate", template),
            "bootstrapConfigTemplate": other("KubeadmConfigTemplate", template),
        }

    return request("CanUpdateMachineSet", current=objects(before or spec()), desired=objects(after or spec(NEW)))


def other(kind: str, its: Json | None = None) -> Json:
    """An object of which Cluster API knows only that it is one."""
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": "a", "namespace": NAMESPACE},
        "spec": its or {"image": "debian", "size": 2},
    }
