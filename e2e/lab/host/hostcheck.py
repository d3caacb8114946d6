"""Check what this machine must have for a lab, and report in one sentence what is missing."""

import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.binaries import components
from e2e.lab.cluster import controlplane
from e2e.lab.errors import LabError
from e2e.lab.machines import qemu
from e2e.lab.process import run

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A requirement for the machine."""

    what: str  # what is required, in words
    found: bool  # whether it is there
    package: str = ""  # the Debian package that provides it, if any
    remedy: str = ""  # what to do if no package provides it


def for_lab() -> list[Requirement]:
    """Return what `up` requires of this machine."""
    return [
        Requirement(what="Linux on x86_64 or aarch64", remedy="run it on such a machine",
                    found=platform.system() == "Linux" and platform.machine() in {"x86_64", "aarch64"}),
        Requirement(what="root", found=os.geteuid() == 0, remedy="run it with sudo"),
        _program("ip", "iproute2"),
        _program("nsenter", "util-linux"),
        _program("openssl", "openssl"),
        _program("debootstrap", "debootstrap"),
        Requirement(what="Debian's archive keys", found=Path(_KEYS).is_file(), package="debian-archive-keyring"),
        Requirement(what="etcd", found=controlplane.etcd_binary() is not None, package="etcd-server"),
    ]  # fmt: skip


def for_kubeadm() -> list[Requirement]:
    """Return what a cluster made by kubeadm requires of this machine in addition."""
    return [_program("iptables", "iptables")]


def for_machines() -> list[Requirement]:
    """Return what nodes that are virtual machines require of this machine in addition."""
    return [
        _program(qemu.PROGRAM, "qemu-system-x86"),
        _program("qemu-img", "qemu-utils"),
        _program("ssh", "openssh-client"),
        _program("sshfs", "sshfs"),
    ]


def for_building() -> list[Requirement]:
    """Return what building Kubernetes components and the operator's images requires in addition."""
    return [
        Requirement(what=f"go ≥ {'.'.join(map(str, components.GO))} (to build what cannot be downloaded)",
                    found=components.go_is_new_enough(), remedy="install it from https://go.dev/dl"),
        Requirement(what="gcc (to build kubelets before 1.17)", found=shutil.which("gcc") is not None,
                    package="gcc libc6-dev"),
        _program("buildah", "buildah"),
    ]  # fmt: skip


def _program(name: str, package: str) -> Requirement:
    return Requirement(what=name, found=shutil.which(name) is not None, package=package)


def sentence(requirements: Iterable[Requirement]) -> str:
    """Say in one sentence what is missing and how to get it; empty if nothing is."""
    missing = [entry for entry in requirements if not entry.found]
    if not missing:
        return ""
    packages = sorted({entry.package for entry in missing if entry.package})
    remedies = [f"run `apt-get install {' '.join(packages)}`"] if packages else []
    remedies += [f"for {entry.what}: {entry.remedy}" for entry in missing if entry.remedy]
    return f"this machine lacks {', '.join(entry.what for entry in missing)}; {'; '.join(remedies)}"


def require(requirements: Iterable[Requirement]) -> None:
    """Raise an error if something is missing.

    Raises:
        LabError: with ``sentence`` as its message.
    """
    if lacking := sentence(requirements):
        raise LabError(lacking)


def install(requirements: Iterable[Requirement]) -> list[str]:
    """Install the Debian packages that are missing, and return their names.

    Raises:
        LabError: if apt-get is missing or fails.
    """
    packages = sorted({name for entry in requirements if not entry.found for name in entry.package.split()})
    if packages:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", "-qq", timeout=600, env=environment)
        run("apt-get", "install", "-y", "--no-install-recommends", *packages, timeout=1200, env=environment)
    return packages
