"""Tests how the facts of a host are gathered."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from tests.builders.gathered import gathered, node
from tests.doubles.node.containers.runtime_restart import PLACES

PROVIDERS = b"""
kind: CredentialProviderConfig
providers: [{name: ecr}, {name: gcr}, {name: ../sh}, 7]
"""


@pytest.mark.parametrize(("path", "named"), [("/etc/p.yaml", "/etc/p.yaml"), ("/etc/p/1.yml", "/etc/p")])
def test_credential_providers_are_looked_for(monkeypatch: pytest.MonkeyPatch, path: str, named: str) -> None:
    flags = (f"--image-credential-provider-config={named}", "--image-credential-provider-bin-dir=/opt/bin")
    seen = node(*flags, files={path: PROVIDERS, "/etc/p/README": b"", "/opt/bin/ecr": b"", "/opt/sh": b""})
    read = seen.files.read

    def on_disk(of: PurePosixPath) -> bytes | None:
        if of == PurePosixPath("/etc/p"):
            raise StepFailed("it is a directory")
        return read(of)

    monkeypatch.setattr(seen.files, "read", on_disk)

    found = gathered(seen).readiness.host.credential_providers

    assert found is not None
    assert (found.directory, dict(found.files)) == ("/opt/bin", {path: PROVIDERS})
    assert found.executable == {"ecr"}


def test_what_a_starting_kubelet_reads_of_its_host_is_collected() -> None:
    seen = node("--root-dir=/data", files={"/proc/swaps": b"Filename\n", "/proc/sys/kernel/panic": b"10\n"})

    found = gathered(seen).readiness.host

    assert (found.swaps, found.credential_providers) == (b"Filename\n", None)
    assert (found.kernel["kernel/panic"], found.kernel["vm/panic_on_oom"]) == ("10", "")
    assert [name for name, _ in found.disks] == ["nodefs", "imagefs"][: len(found.disks)]
    assert ("nodefs", "/data") in found.disks


@pytest.mark.parametrize("images", ["/data/snapshots", None])
def test_images_are_where_the_runtime_says_which_may_be_another_filesystem(
    monkeypatch: pytest.MonkeyPatch, images: str | None
) -> None:
    seen = node()
    info = replace(seen.runtime.info(), places=PLACES, images=images)
    monkeypatch.setattr(seen.runtime, "info", lambda: info)

    assert ("imagefs", images or PLACES.root) in gathered(seen).readiness.host.disks


def test_what_the_kernel_says_about_memory_is_read_in_bytes() -> None:
    lines = b"MemAvailable:    2048 kB\nHugePages_Total:       3\nHugetlb:         6144 kB\n"

    assert gathered(node()).readiness.host.memory == {}
    read = gathered(node(files={"/proc/meminfo": lines})).readiness.host.memory
    assert read == {"MemAvailable": 2048 * 1024, "HugePages_Total": 3, "Hugetlb": 6144 * 1024}


@pytest.mark.parametrize("limit", [None, "fs.inotify.max_user_instances"])
def test_a_limit_of_the_kernel_that_is_used_up_is_known(monkeypatch: pytest.MonkeyPatch, limit: str | None) -> None:
    seen = node()
    monkeypatch.setattr(seen.kubelet, "limit_used_up", lambda: limit)

    assert gathered(seen).readiness.host.used_up == (limit or "")


def test_what_a_starting_kubelet_finds_of_the_host_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = "/sys/kernel/mm/hugepages/hugepages-"
    seen = node(
        files={
            "/sys/devices/system/cpu/online": b"0-2,5\n",
            "/proc/meminfo": b"MemTotal:        4096 kB\nMemFree:        12 kB\n",
            f"{pages}2048kB/nr_hugepages": b"3\n",
            f"{pages}2048kB/free_hugepages": b"1\n",
            f"{pages}1048576kB/nr_hugepages": b"0\n",
            f"{pages}64kB/nr_hugepages": b"2\n",
            f"{pages}odd/nr_hugepages": b"4\n",
            f"{pages}1048576kB/demote": b"",
        }
    )
    read = seen.files.read

    def as_the_kernel_does(path: PurePosixPath) -> bytes | None:
        if path.name == "demote":
            raise StepFailed(f"cannot read {path} because Permission denied")
        return read(path)

    monkeypatch.setattr(seen.files, "read", as_the_kernel_does)
    sizes = {"hugepages-2Mi": 6 * 1024**2, "hugepages-1Gi": 0, "hugepages-64Ki": 128 * 1024}

    assert gathered(seen).readiness.host.capacity == {"cpu": 4000, "memory": 4096 * 1024, **sizes}
    assert gathered(seen).admission.capacity["cpu"] == 4000
    assert gathered(node()).readiness.host.capacity == {}


NUMA = "/sys/devices/system/node/"
MEMINFO = b"""
Node 0 MemTotal:       132064252 kB
Node 0 MemFree:        126180264 kB
Node 0 HugePages_Total:   512
"""


def test_memory_and_huge_pages_of_numa_nodes_are_read_as_kubelets_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node(
        files={
            f"{NUMA}online": b"0-1\n",
            f"{NUMA}node0/meminfo": MEMINFO,
            f"{NUMA}node0/hugepages/hugepages-2048kB/nr_hugepages": b"512\n",
            f"{NUMA}node0/hugepages/hugepages-2048kB/free_hugepages": b"500\n",
            f"{NUMA}node1/meminfo": b"\xff",
        }
    )

    assert gathered(seen).readiness.host.numa == {0: {"memory": 135233794048, "hugepages-2Mi": 2**30}, 1: {}}
    assert gathered(node()).readiness.host.numa == {}
    read = seen.files.read

    def failing(path: PurePosixPath) -> bytes | None:
        if "node1" in path.parts:
            raise StepFailed(f"cannot read {path}")
        return read(path)

    monkeypatch.setattr(seen.files, "read", failing)
    assert gathered(seen).readiness.host.numa == {}


def test_certificates_that_settings_name_are_looked_for() -> None:
    named = (
        b"authentication: {x509: {clientCAFile: %s}}",
        b"tlsCertFile: /pki/k.crt",
        b"tlsPrivateKeyFile: /pki/k.key",
    )
    pem, key = b"-----BEGIN CERTIFICATE-----", b"-----BEGIN EC PRIVATE KEY-----"

    def found(ca: bytes, **files: bytes) -> dict[tuple[str, str], bool]:
        config = b"\n".join(named) % ca
        there = {f"/pki/{name}": data for name, data in {**files, "k.key": key}.items()}
        return dict(gathered(node("--config=/c", files={"/c": config, **there})).readiness.host.certificates)

    assert found(b"/pki/ca.crt", **{"ca.crt": b"# ours\n" + pem, "k.crt": pem}) == {
        ("clientCAFile", "/pki/ca.crt"): True,
        ("tlsCertFile", "/pki/k.crt"): True,
        ("tlsPrivateKeyFile", "/pki/k.key"): True,
    }
    assert [*found(b"/pki/gone", **{"k.crt": key}).values()] == [False, False, True]
    assert not {setting for setting, _ in found(b"relative")} & {"clientCAFile"}
    assert gathered(node("--client-ca-file=/gone")).readiness.host.certificates == {("clientCAFile", "/gone"): False}
    assert gathered(node()).readiness.host.certificates == {}
