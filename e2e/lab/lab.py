"""A whole lab: a control plane and its nodes on this machine, isolated from everything else."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from e2e.lab import naming, paths
from e2e.lab.binaries import components, programs
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm
from e2e.lab.cluster.controlplane import ControlPlane
from e2e.lab.cluster.pki import Authority
from e2e.lab.cluster.reader import Reader
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups, disk, hostcheck, kernel, network
from e2e.lab.locking import locked
from e2e.lab.machines import golden
from e2e.lab.machines.machine import Machine
from e2e.lab.machines.vmnode import VmNode, node_at
from e2e.lab.nodes import baseroot, kubeadmfiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import patience, run, wait_until
from e2e.lab.progress import Progress, Quiet
from e2e.lab.runtimes import runtime_named
from e2e.lab.spec import LabSpec


def _spec(file: Path) -> LabSpec | None:
    """Read a lab's specification, but not what only a newer program knows; ``None`` for a lab that comes or goes."""
    try:
        written = json.loads(file.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return LabSpec(**{field.name: written[field.name] for field in fields(LabSpec) if field.name in written})


class Lab:
    """Handle on a lab; its state is in files, so that any process may load it."""

    def __init__(self, spec: LabSpec, progress: Progress | None = None) -> None:
        self.spec = spec
        self.directory = paths.state_root() / spec.name
        self._progress = progress or Quiet()
        self._authority = Authority(self.directory / "pki")
        self._control_plane = ControlPlane(spec.name, self.directory / "control-plane", self._authority)

    @classmethod
    def up(cls, spec: LabSpec, progress: Progress | None = None) -> "Lab":
        """Create a lab and wait until its nodes are Ready; if anything fails, all of it is removed.

        Raises:
            LabError: if the machine lacks something, the lab exists already, or it fails to start twice.
        """
        runtime_named(spec.runtime).check(Version.parse(spec.kubelet))
        lab = cls(spec, progress)
        lab._check_host()
        with lab._alone():
            if lab.directory.exists():
                message = (
                    f"lab {spec.name} is there already; use it, or run `python -m e2e.lab down --name {spec.name}`"
                )
                raise LabError(message)
            lab._prepare()
            try:
                lab._make()
            except LabError as error:
                lab._progress.say(f"lab {spec.name} did not come up ({error}); trying once more")
                lab._make()
        return lab

    @classmethod
    def anew(cls, spec: LabSpec, progress: Progress | None = None) -> "Lab":
        """Create a lab as `up` does, replacing one of its name that an earlier run left behind."""
        for stale in (lab for lab in cls.list() if lab.name == spec.name):
            stale.down()
        return cls.up(spec, progress)

    @classmethod
    def load(cls, name: str, progress: Progress | None = None) -> "Lab":
        """Return the lab called ``name``.

        Raises:
            LabError: if there is none.
        """
        if (spec := _spec(paths.state_root() / paths.check_name(name) / "lab.json")) is None:
            raise LabError(f"there is no lab called {name}; run `python -m e2e.lab up --name {name}`")
        return cls(spec, progress)

    @classmethod
    def list(cls) -> "Sequence[Lab]":
        """Return all labs of this machine; another process may be about to remove one."""
        found = map(_spec, sorted(paths.state_root().glob("*/lab.json")))
        return [cls(spec) for spec in found if spec is not None]

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def by_kubeadm(self) -> bool:
        """Whether kubeadm makes its cluster."""
        return self.spec.cluster == "kubeadm"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of a cluster administrator; works inside the lab's network namespace only."""
        return self._authority.directory / "admin.kubeconfig"

    @property
    def control_plane(self) -> ControlPlane:
        """Its control plane."""
        return self._control_plane

    @property
    def nodes(self) -> dict[str, Node]:
        """Its nodes by name, in the order in which they joined."""
        found = [node_at(self.name, file.parent) for file in self.directory.glob("nodes/*/node.json")]
        return {node.name: node for node in sorted(found, key=lambda node: node.record.number)}

    def node(self, name: str) -> Node:
        """Return one node.

        Raises:
            LabError: if there is none of that name.
        """
        nodes = self.nodes
        if name not in nodes:
            raise LabError(f"lab {self.name} has no node {name}; it has {', '.join(nodes) or 'none'}")
        return nodes[name]

    def command(self, *argv: str) -> Sequence[str]:
        """Return the command line that runs ``argv`` in the lab's namespace, for callers that start it themselves."""
        return self._control_plane.command("env", f"KUBECONFIG={self.kubeconfig}", *argv)

    def exec(
        self,
        *argv: str,
        input: str | None = None,  # noqa: A002 - named as in subprocess.run
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the host in the lab's network namespace, with ``KUBECONFIG`` set."""
        return run(*self.command(*argv), stdin=input, check=check, timeout=timeout)

    def kubectl(
        self,
        *argv: str,
        input: str | None = None,  # noqa: A002 - named as in subprocess.run
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a cluster administrator."""
        return self.exec(str(self.kubectl_binary), *argv, input=input, check=check, timeout=timeout)

    def kubectl_wait(self, *argv: str, timeout: float, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a kubectl command that waits by itself, for at most ``timeout`` seconds (times ``patience``)."""
        return self.kubectl(*argv, f"--timeout={timeout * patience():.0f}s", check=check, timeout=timeout + 30)

    @property
    def kubectl_binary(self) -> Path:
        """The kubectl of the control plane's version."""
        return components.resolve("kubectl", self.spec.control_plane, self._progress)

    @property
    def api(self) -> Reader:
        """What reads objects from its API server."""
        return Reader(network.namespace_file(naming.control_plane_namespace(self.name)), self._authority)

    def api_of(self, node: Node) -> Reader:
        """What reads objects from the API server of one node that kubeadm made."""
        return replace(self.api, host=node.addresses.address)

    def apply(self, *objects: dict[str, Any], timeout: float = 120) -> None:
        """Apply Kubernetes objects, in order."""
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=document, timeout=timeout)

    def add_node(
        self,
        name: str,
        *,
        kubelet: str | None = None,
        runtime: str | None = None,
        register_unschedulable: bool = False,
        machine: Machine | None = None,
    ) -> Node:
        """Add a node and boot it; its kubelet may need some more seconds to be Ready.

        Args:
            name: its name, also in Kubernetes.
            kubelet: exact version; by default, the lab's.
            runtime: name of its container runtime; by default, the lab's.
            register_unschedulable: cordon it before its kubelet starts, so that no pod is scheduled there.
            machine: the virtual machine that it is; by default, the lab's.
        """
        runtime = runtime or self.spec.runtime
        runtime_named(runtime).check(Version.parse(kubelet or self.spec.kubelet))
        place = (self.name, paths.check_name(name), self.directory / "nodes" / name)
        machine = machine or self.spec.default_machine
        node = Node(*place) if machine is None else VmNode(*place, machine)
        if node.directory.exists():
            raise LabError(f"lab {self.name} has a node {name} already; choose another name")
        number = 1 + max((other.record.number for other in self.nodes.values()), default=0)
        self._progress.say(f"node {name}: laying out, kubelet {kubelet or self.spec.kubelet}")
        version = self.spec.control_plane if self.by_kubeadm else ""
        node.create(number, kubelet or self.spec.kubelet, runtime, self._authority, self._progress, kubeadm=version)
        first = self.by_kubeadm and number == kubeadmfiles.FIRST
        if not first:
            self._announce(node, unschedulable=register_unschedulable)
        node.boot()
        node.load_images()
        self._progress.say(f"node {name}: up, {runtime} answers")
        if self.by_kubeadm:
            self._configure(node, first=first)
        return node

    def _announce(self, node: Node, *, unschedulable: bool = False) -> None:
        """Create its Node object, which the kubelet adopts: its pod range and its cordon are there from the start."""
        spec: dict[str, object] = {"podCIDR": node.addresses.pod_range, "podCIDRs": [node.addresses.pod_range]}
        metadata: dict[str, object] = {"name": node.name}
        if unschedulable:
            spec["unschedulable"] = True
        if Version.parse(node.record.kubelet).release < (1, 14):  # it sets the label's beta only
            metadata["labels"] = {"kubernetes.io/os": "linux"}
            spec["externalID"] = node.name  # up to 1.10 it replaces a Node that lacks it, which it may not
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})

    def _configure(self, node: Node, *, first: bool) -> None:
        """Let kubeadm configure the node's kubelet, and approve its serving certificate, which nobody else does."""
        version = Version.parse(self.spec.control_plane)
        if first:
            kubeadm.init(node, self._authority, version, self._progress)
            self._announce(node)
        elif node.record.number <= self.spec.control_planes:
            kubeadm.join_control_plane(node, next(iter(self.nodes.values())), version, self._progress)
        else:
            kubeadm.join(node, version, self._progress)
        wait_until(f"a serving certificate for {node.name}", lambda: self._approve(node.name), timeout=60, interval=0.5)

    def _approve(self, node: str) -> bool:
        wanted = ("kubernetes.io/kubelet-serving", f"system:node:{node}")
        found = [
            request["metadata"]["name"]
            for request in self.api.list("certificatesigningrequests")
            if (request["spec"]["signerName"], request["spec"]["username"]) == wanted
        ]
        if found:
            self.kubectl("certificate", "approve", *found)
        return bool(found)

    def import_image(self, archive: Path, nodes: Sequence[str] | None = None) -> None:
        """Import an OCI or Docker archive into the runtimes of ``nodes`` (default: all)."""
        for name in self.nodes if nodes is None else nodes:
            self.node(name).import_image(archive)

    def wait_ready(self, timeout: float = 180) -> None:
        """Wait until the API server is ready and every node of the lab is Ready.

        Raises:
            LabError: after ``timeout`` seconds; it names what is missing.
        """
        wait_until("the API server to be ready", self._api_ready, timeout=timeout, interval=0.3)
        wait_until("all nodes Ready", self._nodes_ready, timeout=timeout, interval=0.5)

    def _api_ready(self) -> bool:
        dead = [name for name, alive in self._control_plane.alive().items() if not alive]
        if dead:
            raise LabError(f"{dead[0]} has ended: {self._control_plane.log_tail(dead[0])}")
        return self.api.ready()

    def _nodes_ready(self) -> bool:
        # Pods cannot be created before it exists.
        self.api.get("serviceaccounts", "default", namespace="default", timeout=10)
        missing = set(self.nodes) - {name for name, ready in self.node_readiness().items() if ready}
        if missing:
            raise LabError(f"not Ready: {', '.join(sorted(missing))}")
        return True

    def node_readiness(self) -> dict[str, bool]:
        """Node name → whether the API server considers it Ready."""
        return {
            node["metadata"]["name"]: any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node.get("status", {}).get("conditions", [])
            )
            for node in self.api.list("nodes")
        }

    def down(self) -> None:
        """Remove everything of the lab; does nothing if there is nothing."""
        with self._alone():
            self._remove()

    def _remove(self) -> None:
        cgroups.destroy(naming.lab_cgroup(self.name))
        network.destroy(self.name)
        kernel.restore(self.directory)
        disk.remove(self.directory)

    def _check_host(self) -> None:
        hostcheck.require([
            *hostcheck.for_lab(),
            *(hostcheck.for_kubeadm() if self.by_kubeadm else ()),
            *(hostcheck.for_machines() if self.spec.default_machine else ()),
        ])  # fmt: skip

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with locked(f"lab-{self.name}", self._progress):
            yield

    def _prepare(self) -> None:
        """Create everything that takes minutes and remains in the cache, before the lab exists."""
        wanted = [(name, self.spec.control_plane) for name in components.CONTROL_PLANE]
        if self.by_kubeadm:
            wanted.append(("kubeadm", self.spec.control_plane))
            programs.etcd()
        components.ensure([*wanted, ("kubelet", self.spec.kubelet)], self._progress)
        if machine := self.spec.default_machine:
            golden.ensure(machine, self._progress)
        else:
            baseroot.ensure(self._progress, runtime_named(self.spec.runtime))

    def _make(self) -> None:
        try:
            self._make_or_leave_pieces()
        except BaseException:
            self._remove()
            raise

    def _make_or_leave_pieces(self) -> None:
        disk.create(self.directory)
        kernel.save(self.directory)
        (self.directory / "lab.json").write_text(json.dumps(asdict(self.spec)))
        self._progress.say(f"lab {self.name}: network, certificates, control plane {self.spec.control_plane}")
        network.create_control_plane(self.name)
        self._authority.create()
        if self.by_kubeadm:
            network.forward_api_server(self.name, naming.NodeAddresses(kubeadmfiles.FIRST).address)
        else:
            self._start_control_plane()
        for number in range(1, self.spec.nodes + 1):
            self.add_node(f"node{number}")
        self.wait_ready()
        self._progress.say(f"lab {self.name}: {self.spec.nodes} nodes Ready")

    def _start_control_plane(self) -> None:
        version = str(Version.parse(self.spec.control_plane))
        names = [name for name in components.CONTROL_PLANE if name != "kubectl"]
        found = components.ensure([(name, version) for name in names], self._progress)
        self._control_plane.start({name: found[name, version] for name in names})
        wait_until("the API server to be ready", self._api_ready, timeout=120, interval=0.3)
