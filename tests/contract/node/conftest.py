"""The worlds a suite runs in: each double, and the real thing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from e2e.lab import Lab, LabSpec
from e2e.lab.nodes.node import Node
from e2e.lab.runtimes.crio import why_not
from nodeupgrade.node.host.packages.dpkg_database import LOCKS, PROGRAM
from tests.contract.node.crio_world import CrioWorld
from tests.contract.node.doubles import (
    ModelDiskWorld,
    RememberingRuntimeWorld,
    SimulatedFilesWorld,
    SimulatedPackagesWorld,
    SimulatedRuntimeWorld,
    SimulatedServicesWorld,
    SimulatedShieldWorld,
    StoppingRuntimeWorld,
)
from tests.contract.node.real import ContainerdWorld, RealFilesWorld, RealShieldWorld, SystemdWorld
from tests.contract.node.real_crio import RealCrioWorld
from tests.contract.node.real_docker import DockerWorld
from tests.contract.node.real_dpkg import DpkgWorld
from tests.contract.node.worlds import FilesWorld, PackagesWorld, RuntimeWorld, ServicesWorld, ShieldWorld

FILES: list[Callable[[Path], FilesWorld]] = [RealFilesWorld, SimulatedFilesWorld, ModelDiskWorld]
RUNTIME_DOUBLES: list[Callable[[], RuntimeWorld]] = [
    SimulatedRuntimeWorld,
    StoppingRuntimeWorld,
    RememberingRuntimeWorld,
]
RECORDED_RUNTIMES = ["recorded cri-o"]
"""Fixtures of this module: adapters on storage as real runtimes leave it, with servers that answer as they do."""
SERVICES_DOUBLES: list[Callable[[], ServicesWorld]] = [SimulatedServicesWorld]

PACKAGES_DOUBLES: list[Callable[[], PackagesWorld]] = [SimulatedPackagesWorld]

SHIELD_DOUBLES: list[Callable[[], ShieldWorld]] = [SimulatedShieldWorld]

UNIT_DIRECTORIES = ["/etc/systemd/system", "/usr/lib/systemd/system"]
"""Where people and where packages put unit files."""

REAL_RUNTIMES = ["containerd", "docker", "cri-o"]
"""Fixtures of this module, one for each runtime, and of its name."""


@contextmanager
def without_kubelet(name: str, spec: Callable[[str], LabSpec]) -> Iterator[Node]:
    """A node of a lab of its own whose kubelet is stopped: it would remove pods that no API server knows."""
    lab = Lab.anew(spec(f"{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"))
    try:
        node = lab.node("node1")
        node.exec("systemctl", "disable", "--now", "kubelet")
        yield node
    finally:
        lab.down()


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    """A node with containerd."""
    with without_kubelet("adapters", lambda name: LabSpec(name=name)) as node:
        yield node


@pytest.fixture(scope="package")
def docker_node() -> Iterator[Node]:
    """A node with Docker."""
    with without_kubelet(
        "adapters-docker", lambda name: LabSpec(name=name, kubelet="1.20.15", runtime="docker")
    ) as node:
        yield node


@pytest.fixture(scope="package")
def crio_node() -> Iterator[Node]:
    """A node with CRI-O, where that can be had."""
    if why := why_not():
        pytest.skip(why)
    with without_kubelet("adapters-crio", lambda name: LabSpec(name=name, runtime="crio")) as node:
        yield node


@pytest.fixture
def containerd(node: Node) -> Iterator[ContainerdWorld]:
    """The real containerd."""
    world = ContainerdWorld(node)
    yield world
    world.close()


@pytest.fixture(name="cri-o")
def crio(crio_node: Node) -> Iterator[RealCrioWorld]:
    """The real CRI-O."""
    world = RealCrioWorld(crio_node)
    yield world
    world.close()


@pytest.fixture(name="recorded cri-o")
def recorded_crio(tmp_path: Path) -> Iterator[CrioWorld]:
    """CRI-O's storage, with a server in the place of CRI-O."""
    world = CrioWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def docker(docker_node: Node) -> Iterator[DockerWorld]:
    """The real Docker."""
    world = DockerWorld(docker_node)
    yield world
    world.close()


@pytest.fixture(params=UNIT_DIRECTORIES)
def systemd(node: Node, request: pytest.FixtureRequest) -> Iterator[SystemdWorld]:
    """The real systemd."""
    world = SystemdWorld(node, request.param)
    yield world
    world.close()


@pytest.fixture(
    params=[
        *RUNTIME_DOUBLES,
        *RECORDED_RUNTIMES,
        *(pytest.param(name, marks=pytest.mark.e2e) for name in REAL_RUNTIMES),
    ]
)
def runtime_world(request: pytest.FixtureRequest) -> RuntimeWorld:
    """Every runtime there is."""
    world: RuntimeWorld
    world = request.getfixturevalue(request.param) if isinstance(request.param, str) else request.param()
    return world


@pytest.fixture(params=[*SERVICES_DOUBLES, *(pytest.param(d, marks=pytest.mark.e2e) for d in UNIT_DIRECTORIES)])
def services_world(request: pytest.FixtureRequest) -> Iterator[ServicesWorld]:
    """Every service manager there is."""
    if not isinstance(request.param, str):
        yield request.param()
        return
    world = SystemdWorld(request.getfixturevalue("node"), request.param)
    yield world
    world.close()


@pytest.fixture(params=FILES)
def files_world(request: pytest.FixtureRequest, tmp_path: Path) -> FilesWorld:
    """All files there are."""
    world: FilesWorld = request.param(tmp_path)
    return world


@pytest.fixture(params=[*PACKAGES_DOUBLES, *(pytest.param(lock, marks=pytest.mark.real) for lock in LOCKS)], ids=str)
def packages_world(request: pytest.FixtureRequest, tmp_path: Path) -> PackagesWorld:
    """Every package manager there is."""
    if not isinstance(request.param, PurePosixPath):
        world: PackagesWorld = request.param()
        return world
    if not Path(PROGRAM).exists() and os.environ.get("NODEUPGRADE_E2E") != "required":
        pytest.skip(f"there is no {PROGRAM}")
    return DpkgWorld(tmp_path, request.param)


@pytest.fixture(params=[*SHIELD_DOUBLES, pytest.param("containerd", marks=pytest.mark.e2e)])
def shield_world(request: pytest.FixtureRequest) -> Iterator[ShieldWorld]:
    """Every shield there is."""
    if not isinstance(request.param, str):
        yield request.param()
        return
    world = RealShieldWorld(request.getfixturevalue(request.param))
    yield world
    world.close()
