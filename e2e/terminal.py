"""A terminal in a checkout, in which the pages' commands are typed as they are written.

It is in the lab's network, where the pages' registry is the lab's. What a reader would have from the internet comes
from the cache instead: the base image by way of a mirror in podman's configuration, and Python packages by way of
pip's. The base image is a stand-in: Debian with its own Python, which `IMAGE_PYTHON` names.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from e2e import pages
from e2e.lab.binaries import components, programs
from e2e.lab.cluster import images
from e2e.lab.cluster.registry import NAME, PASSWORD, Place, Registry
from e2e.lab.process import run

_BASE = "library/python:3.13-slim-bookworm"
_MIRROR = f"{NAME}/docker.io"
_NOT_IN_A_CHECKOUT = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "wheels")
_MAKE_THE_VENV = ("requirements-dev.lock", "pyproject.toml", "tools/make-venv")
_SECONDS = 900
_AT_HOME = 'mount --bind "$0" /etc/hosts && exec "$@"'


class Shown(Place, Protocol):
    """What a terminal needs to know of a lab."""

    @property
    def kubeconfig(self) -> Path:
        """That of an administrator."""
        ...

    @property
    def kubectl_binary(self) -> Path:
        """The kubectl of the cluster's version."""
        ...


class Terminal:
    """A terminal.

    Args:
        shown: the cluster that kubectl and helm talk to.
        registry: the one that images are pushed to.
        directory: where the checkout will be; it does not exist yet.
    """

    def __init__(self, shown: Shown, registry: Registry, directory: Path) -> None:
        self._shown = shown
        self.directory = directory
        ignored = shutil.ignore_patterns(*_NOT_IN_A_CHECKOUT)
        shutil.copytree(pages.CHECKOUT, directory, symlinks=True, ignore=ignored)
        (directory / ".venv").symlink_to(pages.CHECKOUT / ".venv")
        for name in _MAKE_THE_VENV:  # it is shared, and must not be made again for this checkout
            os.utime(directory / name, (0, 0))
        self._home = directory.with_name("home")
        for name, target in self._programs().items():
            (self._home / "bin" / name).parent.mkdir(parents=True, exist_ok=True)
            (self._home / "bin" / name).symlink_to(target)
        for name, text in self._files(registry).items():
            (self._home / name).write_text(text)

    def type(self, *argv: str) -> str:
        """Run one command and return what it prints; it must succeed."""
        where = ("unshare", "--mount", "sh", "-euc", _AT_HOME, str(self._home / "hosts"))
        command = self._shown.command(*where, *argv)
        return run(*command, cwd=self.directory, env=self._environment(), timeout=_SECONDS).stdout

    def follow(self, tag: str, **names: str) -> None:
        """Run the pages' commands with a tag, with these words in place of others; each must succeed."""
        found = pages.commands(tag)
        assert found, tag
        for command in found:
            for name, value in names.items():
                command = command.replace(name, value)  # noqa: PLW2901
            self.type("bash", "-o", "pipefail", "-euc", command)

    def save(self, file: str, names: Mapping[str, str]) -> None:
        """Write a file that the pages show, with these words in place of others."""
        text = pages.file(file)
        for name, value in names.items():
            assert name in text
            text = text.replace(name, value)
        (self.directory / file).write_text(text)

    def provide(self) -> None:
        """Put the base image into the registry's mirror, as the internet has it."""
        images.push_base(f"{_MIRROR}/{_BASE}", self.type)

    def download(self, version: str) -> None:
        """Put a kubelet where a download would have put it."""
        shutil.copyfile(components.resolve("kubelet", version), self.directory / "kubelet")

    def _programs(self) -> dict[str, Path]:
        return {
            "helm": Path(programs.helm()),
            "kubectl": self._shown.kubectl_binary,
            "kubectl-nodeupgrade": pages.CHECKOUT / ".venv/bin/kubectl-nodeupgrade",
            "skopeo": Path(programs.skopeo()),
            "podman": programs.podman() / "usr/bin/podman",
        }

    def _files(self, registry: Registry) -> dict[str, str]:
        storage = self._home / "containers"
        podman = programs.podman()
        return {
            "hosts": f"127.0.0.1 localhost\n{registry.hosts}",
            "storage.conf": f'[storage]\ndriver = "{_driver(storage)}"\n'
            f'graphroot = "{storage}/graph"\nrunroot = "{storage}/run"\n',
            "registries.conf": f'[[registry]]\nprefix = "docker.io"\nlocation = "{_MIRROR}"\n',
            "containers.conf": f'[engine]\nconmon_path = ["{podman}/usr/bin/conmon"]\nevents_logger = "file"\n'
            f'cgroup_manager = "cgroupfs"\ntmp_dir = "{storage}/tmp"\n'
            f'[engine.runtimes]\nrunc = ["{podman}/usr/sbin/runc"]\n',
            "auth.json": "{}",
            "ca.crt": registry.authority.certificate.read_text(),
        }

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self._home}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self._home),
            "KUBECONFIG": str(self._shown.kubeconfig),
            "LANG": "C.UTF-8",
            "PASSWORD": PASSWORD,
            "SSL_CERT_FILE": str(self._home / "ca.crt"),
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_STORAGE_CONF": str(self._home / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self._home / "registries.conf"),
            "CONTAINERS_CONF": str(self._home / "containers.conf"),
            "REGISTRY_AUTH_FILE": str(self._home / "auth.json"),
            "IMAGE_PYTHON": images.BASE_PYTHON,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(images.dependencies()),
            "PIP_CONFIG_FILE": "/dev/null",
        }


def _driver(storage: Path) -> str:
    """Return the storage driver that works there; overlay does not on an overlay, but is ten times as fast."""
    storage.mkdir(parents=True)
    tried = ("--storage-driver=overlay", f"--root={storage}/try", f"--runroot={storage}/try-run", "images")
    return "vfs" if run("buildah", *tried, check=False).returncode else "overlay"
