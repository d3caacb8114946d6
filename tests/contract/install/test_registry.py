"""The pages' commands about images that need no cluster, on a real registry in a network namespace of its own."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.lab import naming
from e2e.lab.binaries import components, programs
from e2e.lab.cluster.pki import Authority
from e2e.lab.cluster.registry import NAME, PASSWORD, USER, Registry
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups
from e2e.lab.process import CommandError, run
from e2e.terminal import Terminal
from tests.contract.install.having import have
from tools import generate_chart
from tools.release.image import index_digest

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@dataclass(frozen=True)
class Alone:
    """A network namespace with the address of a lab's control plane, and nothing else."""

    name: str
    directory: Path
    kubectl_binary: Path
    kubeconfig: Path = Path("/none")

    @property
    def namespace(self) -> str:
        return f"nodeupgrade-{self.name}"

    def command(self, *argv: str) -> Sequence[str]:
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *argv]

    def make(self) -> None:
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        run("ip", "-n", self.namespace, "address", "add", f"{naming.CONTROL_PLANE_ADDRESS}/32", "dev", "lo")
        Authority(self.directory / "pki").create()

    def remove(self) -> None:
        cgroups.destroy(naming.lab_cgroup(self.name))
        run("ip", "netns", "delete", self.namespace)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    for program in (programs.registry, programs.skopeo, lambda: str(programs.podman()), programs.helm):
        have(program)
    try:
        kubectl = components.resolve("kubectl", "1.33.13")
    except LabError as error:
        pytest.skip(str(error))
    (tmp_path / "registry").mkdir()
    alone = Alone(f"registry-{os.getpid()}", tmp_path / "registry", kubectl)
    alone.make()
    try:
        registry = Registry(alone)
        registry.start()
        yield registry
        registry.stop()
    finally:
        alone.remove()


@pytest.fixture
def terminal(registry: Registry, tmp_path: Path) -> Terminal:
    alone = registry.lab
    assert isinstance(alone, Alone)
    terminal = Terminal(alone, registry, tmp_path / "checkout")
    (terminal.directory / "kubelet").write_text("not really")
    return terminal


def digest(terminal: Terminal, name: str) -> str:
    """Return the digest by which the registry has an image."""
    return terminal.type("skopeo", "inspect", "--format={{.Digest}}", f"docker://{NAME}/{name}").strip()


def test_the_image_of_a_kubelet_has_the_digest_that_is_written_down(terminal: Terminal) -> None:
    terminal.follow("kubelet")
    assert (terminal.directory / "kubelet.digest").read_text().strip() == digest(terminal, "kubelet:v1.33.13")


def test_a_release_is_published_as_it_was_built(terminal: Terminal, registry: Registry) -> None:
    """As the release's workflow does; the archive holds another image here, of one platform."""
    terminal.follow("kubelet")
    tag, archive = generate_chart.version(), f"dist/nodeupgrade-{generate_chart.version()}-image.tar"
    (terminal.directory / "dist").mkdir()
    terminal.type("podman", "push", f"{NAME}/kubelet:v1.33.13", f"oci-archive:{archive}")
    registry.start(password=True)
    with pytest.raises(CommandError, match="authentication required"):
        digest(terminal, "kubelet:v1.33.13")

    login = (f"REGISTRY_USER={USER}", f"REGISTRY_PASSWORD={PASSWORD}")
    told = terminal.type("env", *login, "make", "publish", f"REPOSITORY={NAME}/released")

    assert "SKIPPED  signature of the image" in told
    assert digest(terminal, f"released:{tag}") == index_digest(terminal.directory / archive)
