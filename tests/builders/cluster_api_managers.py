"""Cluster API's own managers, and an infrastructure provider that hands out nodes that are there already."""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
import yaml

from e2e.lab import paths
from e2e.lab.cluster.definitions import wait_until_established
from e2e.lab.process import PATIENCE
from nodeupgrade.api.json import Json
from nodeupgrade.capi.machines import MACHINES
from nodeupgrade.capi.requests import DEPLOYMENT_LABEL
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, ConflictError, NotFoundError, Resource
from tests.builders.certificates import self_signed
from tests.builders.checkout import CHECKOUT
from tests.builders.cluster_api import NEW, OLD
from tests.contract.kube.apiserver import free_ports

VERSION = "1.14.2"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
IN = "default"
SECONDS = 300
PAUSE = 0.3
PHASES = "StorageVersionMigration,CleanupManagedFields"
GATES = "RuntimeSDK=true,InPlaceUpdates=true"

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster", IN)
DEPLOYMENTS = Resource("cluster.x-k8s.io", "v1beta2", "machinedeployments", "MachineDeployment", IN)
OWN = MACHINES.within(IN)
LAB_CLUSTERS = Resource(INFRASTRUCTURE, "v1beta2", "labclusters", "LabCluster", IN)
LAB_MACHINES = Resource(INFRASTRUCTURE, "v1beta2", "labmachines", "LabMachine", IN)
LAB_TEMPLATES = Resource(INFRASTRUCTURE, "v1beta2", "labmachinetemplates", "LabMachineTemplate", IN)
LAB_PLANES = Resource(INFRASTRUCTURE, "v1beta2", "labcontrolplanes", "LabControlPlane", IN)
BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
CONFIG_TEMPLATES = Resource(BOOTSTRAP, "v1beta2", "kubeadmconfigtemplates", "KubeadmConfigTemplate", IN)
LAB = (LAB_CLUSTERS, LAB_MACHINES, LAB_TEMPLATES, LAB_PLANES)
SECRETS = Resource("", "v1", "secrets", "Secret", IN)
EXTENSIONS = Resource("runtime.cluster.x-k8s.io", "v1beta2", "extensionconfigs", "ExtensionConfig")


CORE, KUBEADM, CONTROL_PLANE = "core", "bootstrap", "controlplane"
PACKAGES = {CORE: "core", KUBEADM: "bootstrap/kubeadm", CONTROL_PLANE: "controlplane/kubeadm"}
"""The managers, and their packages."""


def manager(name: str) -> Path:
    """Return a manager. All take ten minutes to build: no test does it."""
    program = paths.cache_root() / "cluster-api" / f"{name}-{VERSION}"
    if not program.is_file():
        module = f"{PACKAGES[name]} of sigs.k8s.io/cluster-api@v{VERSION}"
        pytest.fail(f"no {program}: build the package {module}, beside sigs.k8s.io/cluster-api/api@v{VERSION}")
    return program


def definitions() -> list[Json]:
    """Cluster API's own, as of one version, and an infrastructure provider's."""
    told = subprocess.run(
        ["go", "mod", "download", "-json", f"sigs.k8s.io/cluster-api@v{VERSION}"],
        capture_output=True, text=True, check=True, timeout=600, env={**os.environ, "GO111MODULE": "on"}, cwd="/",
    )  # fmt: skip
    found = []
    root = Path(json.loads(told.stdout)["Dir"])
    for path in (path for package in PACKAGES.values() for path in sorted(root.glob(f"{package}/config/crd/bases/*"))):
        body = yaml.safe_load(path.read_text())
        versions = body["spec"]["versions"]
        body["spec"]["versions"] = [each for each in versions if each["storage"]]
        body["metadata"]["labels"] = {"cluster.x-k8s.io/v1beta2": "v1beta2"}
        found.append(body)
    return [*found, *map(definition, LAB)]


def definition(resource: Resource) -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {"cluster.x-k8s.io/v1beta2": resource.version},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}
                    },
                }
            ],
        },
    }


@dataclass(frozen=True)
class Place:
    """An API server as whoever is beside it reaches it."""

    kubeconfig: Path
    host: str
    port: int
    kubectl: Callable[..., str]


class Nodes(Protocol):
    """What a provider hands out."""

    async def hand_out(self, version: str) -> str | None:
        """Return the name of one more Node; None if there is none left."""

    async def step(self) -> None:
        """Do what goes on on the nodes meanwhile."""


def provider_id(node: str) -> str:
    return f"lab:///{node}"


class Provider:
    """Hands out nodes: each LabMachine is the next one."""

    def __init__(self, admin: KubeClient, nodes: Nodes) -> None:
        self.admin, self.nodes = admin, nodes
        self.handed: set[str] = set()

    async def step(self) -> None:
        for body in await self.admin.list(LAB_MACHINES):
            with contextlib.suppress(ConflictError, NotFoundError):
                await self._provide(body)
        await self.nodes.step()

    async def steps(self, seconds: float) -> None:
        """Go on for a time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    await self.step()
                    await asyncio.sleep(PAUSE)

    async def _provide(self, body: Json) -> None:
        name = body["metadata"]["name"]
        if name in self.handed or "deletionTimestamp" in body["metadata"]:
            return
        owners = body["metadata"].get("ownerReferences") or ()
        machine = next((each["name"] for each in owners if each["kind"] == "Machine"), None)
        if machine is None:
            return
        version = (await self.admin.get(OWN, machine))["spec"]["version"]
        if (node := await self.nodes.hand_out(version)) is None:
            return
        self.handed.add(name)
        await self.admin.merge(LAB_MACHINES, name, {"spec": {"providerID": provider_id(node)}})
        await self.admin.replace_status(LAB_MACHINES, name, {"initialization": {"provisioned": True}})

    async def wait(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """Go on until something holds."""
        try:
            async with asyncio.timeout(SECONDS * PATIENCE):
                while not await holds():
                    await self.step()
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            found = [body.get("status", {}).get("conditions") for body in await self.admin.list(OWN)]
            pytest.fail(f"{what}: not in {SECONDS} s: {json.dumps(found)[:3000]}")

    async def until(self, deployment: str, version: str, replicas: int = 2) -> None:
        """Go on until all nodes of a MachineDeployment run a version, and nothing is in progress."""

        async def holds() -> bool:
            return await self.versions(deployment) == [version] * replicas

        await self.wait(f"{deployment} at {version}", holds)

    async def machines(self, deployment: str) -> dict[str, Json]:
        found = await self.admin.list(OWN, labels={DEPLOYMENT_LABEL: deployment})
        return {body["metadata"]["uid"]: body for body in found}

    async def versions(self, deployment: str) -> list[str]:
        """Of the nodes of its Machines; none while one of them is being updated or deleted."""
        found = []
        for body in (await self.machines(deployment)).values():
            annotations = body["metadata"].get("annotations") or {}
            busy = any("in-place" in key or "pending-hooks" in key for key in annotations)
            ref = body.get("status", {}).get("nodeRef", {}).get("name")
            if busy or ref is None or "deletionTimestamp" in body["metadata"]:
                return []
            found.append((await self.admin.get(NODES, ref))["status"]["nodeInfo"]["kubeletVersion"])
        return found


def secret(cluster: str, purpose: str, **data: Path) -> Json:
    """One of a cluster's own Secrets."""
    metadata = {"name": f"{cluster}-{purpose}", "namespace": IN, "labels": labels(cluster)}
    encoded = {name: base64.b64encode(path.read_bytes()).decode() for name, path in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": encoded}


def labels(cluster: str) -> dict[str, str]:
    return {"cluster.x-k8s.io/cluster-name": cluster}


def deployment(name: str, replicas: int) -> Json:
    pool = {"pool": name, **labels("one")}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": name,
            "namespace": IN,
            "labels": labels("one"),
            "annotations": {"machineset.cluster.x-k8s.io/skip-preflight-checks": "All"},
        },
        "spec": {
            "clusterName": "one",
            "replicas": replicas,
            "selector": {"matchLabels": pool},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
            "template": {
                "metadata": {"labels": pool},
                "spec": {
                    "clusterName": "one",
                    "version": OLD,
                    "bootstrap": {"configRef": reference(CONFIG_TEMPLATES, "one")},
                    "infrastructureRef": reference(LAB_TEMPLATES, "one"),
                },
            },
        },
    }


@asynccontextmanager
async def process(log: Path, *argv: str, environment: dict[str, str] | None = None) -> AsyncIterator[None]:
    with log.open("ab") as output:
        started = await asyncio.create_subprocess_exec(
            "setpriv",
            "--pdeathsig",
            "KILL",
            *argv,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield
            assert started.returncode is None, f"{argv[0]} has ended; see {log}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                started.kill()
            await started.wait()


async def created(admin: KubeClient, resource: Resource, body: Json, status: Json | None = None) -> None:
    with contextlib.suppress(ConflictError):
        await admin.create(resource, body)
    if status is not None:
        await admin.replace_status(resource, body["metadata"]["name"], status)


def reference(resource: Resource, name: str) -> Json:
    return {"apiGroup": resource.group, "kind": resource.kind, "name": name}


def thing(resource: Resource, name: str, spec: Json, cluster: str = "one") -> Json:
    metadata = {"name": name, "namespace": IN, "labels": labels(cluster)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


@asynccontextmanager
async def running(name: str, place: Place, directory: Path) -> AsyncIterator[None]:
    """Run one of the managers, with its webhooks, which nobody is told of."""
    webhooks, certificates = free_ports(1)[0], directory / f"{name}-webhooks"
    certificates.mkdir()
    self_signed(certificates)
    async with process(
        directory / f"{name}.log", str(manager(name)), f"--kubeconfig={place.kubeconfig}", f"--feature-gates={GATES}",
        "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics", "--health-addr=127.0.0.1:0", "--v=2",
        f"--webhook-port={webhooks}", f"--webhook-cert-dir={certificates}", f"--skip-crd-migration-phases={PHASES}",
        environment={"POD_NAMESPACE": IN, "POD_NAME": name, "POD_UID": "1"},
    ):  # fmt: skip
        yield


@dataclass
class Serving:
    """The extension's process, on one port, with one certificate."""

    kubeconfig: Path
    directory: Path
    rollouts: Json
    port: int = field(default_factory=lambda: free_ports(1)[0])

    def __post_init__(self) -> None:
        """Let the server vouch for itself."""
        self.directory.mkdir()
        self_signed(self.directory)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        rollouts = self.directory / "rollouts.yaml"
        rollouts.write_text(json.dumps(self.rollouts))
        environment = {
            "KUBECONFIG": str(self.kubeconfig), "ROLLOUTS": str(rollouts), "PORT": str(self.port),
            "CERTIFICATES": str(self.directory), "PYTHONPATH": str(CHECKOUT / "operator"),
        }  # fmt: skip
        log = self.directory / "extension.log"
        async with process(log, sys.executable, "-m", "nodeupgrade.capi", environment=environment):
            yield

    async def register(self, admin: KubeClient) -> None:
        bundle = base64.b64encode((self.directory / "tls.crt").read_bytes()).decode()
        client = {"url": f"https://127.0.0.1:{self.port}", "caBundle": bundle}
        body: Json = {"apiVersion": EXTENSIONS.api_version, "kind": "ExtensionConfig"}
        body |= {"metadata": {"name": "nodeupgrade"}, "spec": {"clientConfig": client, "namespaceSelector": {}}}
        await admin.create(EXTENSIONS, body)
        async with asyncio.timeout(SECONDS):  # until then, Cluster API replaces
            while not await self._is_discovered(admin):  # noqa: ASYNC110 - what we wait for happens in the manager
                await asyncio.sleep(0.3)
        await asyncio.sleep(1)

    async def _is_discovered(self, admin: KubeClient) -> bool:
        conditions = (await admin.get(EXTENSIONS, "nodeupgrade")).get("status", {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("Discovered", "True") for each in conditions)


@asynccontextmanager
async def managed(
    admin: KubeClient, place: Place, directory: Path, *others: str, drains: bool = False
) -> AsyncIterator[None]:
    """Run the managers of workers, and others, beside an API server, which has one cluster then, with a new version.

    Of a cluster that seems to have no control plane, they neither drain nor delete a Node.
    """
    names = (CORE, KUBEADM, *others)
    for name in names:
        manager(name)
    file = directory / "definitions.json"
    kinds = definitions()
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": kinds}))
    place.kubectl("create", "--filename", str(file))
    wait_until_established(place.kubectl, *(each["metadata"]["name"] for each in kinds))
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(running(name, place, directory))
        state: Json = {"initialization": {"controlPlaneInitialized": True}, "version": NEW}
        plane = thing(LAB_PLANES, "one", {"version": NEW})
        await created(admin, LAB_PLANES, plane, {**state, "externalManagedControlPlane": drains})
        authority = self_signed(new(directory / "authority"))
        await created(admin, SECRETS, secret("one", "ca", **dict(zip(("tls.crt", "tls.key"), authority, strict=True))))
        joins = {"joinConfiguration": {"nodeRegistration": {"name": "{{ ds.meta_data.hostname }}"}}}
        await created(admin, CONFIG_TEMPLATES, thing(CONFIG_TEMPLATES, "one", {"template": {"spec": joins}}))
        await add_cluster(admin, place, "one", reference(LAB_PLANES, "one"))
        yield
    place.kubectl("delete", "--wait=false", "--filename", str(file))


def new(directory: Path) -> Path:
    directory.mkdir()
    return directory


async def add_cluster(admin: KubeClient, place: Place, name: str, control_plane: Json) -> None:
    """Add a cluster whose API server is this one, and a template for its nodes."""
    endpoint = {"controlPlaneEndpoint": {"host": place.host, "port": place.port}}
    made = {"initialization": {"provisioned": True}}
    await created(admin, LAB_CLUSTERS, thing(LAB_CLUSTERS, name, endpoint, name), made)
    template = {"template": {"spec": {"size": 1}}}
    await created(admin, LAB_TEMPLATES, thing(LAB_TEMPLATES, name, template, name))
    await created(admin, SECRETS, secret(name, "kubeconfig", value=place.kubeconfig))
    refs = {"infrastructureRef": reference(LAB_CLUSTERS, name), "controlPlaneRef": control_plane}
    await created(admin, CLUSTERS, thing(CLUSTERS, name, refs, name))


async def change_version(admin: KubeClient, name: str) -> None:
    await admin.merge(DEPLOYMENTS, name, {"spec": {"template": {"spec": {"version": NEW}}}})
