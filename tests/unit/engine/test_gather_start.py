"""What the start of the new kubelet would meet: what it reads of its host."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.runtime_drift import runtime_is_the_unit
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from tests.doubles.node.containers.runtime import MAIN_PID
from tests.doubles.node.containers.runtime_restart import PLACES, RUNTIME_UNIT
from tests.doubles.node.kubelet import PROGRAM
from tests.unit.engine.test_gather import gathered, node


@pytest.mark.parametrize("word", ["--config=config.yaml", "--config-dir=kubelet.d", "--kubeconfig=kubelet.conf"])
def test_a_path_from_the_working_directory_refuses_the_node(word: str) -> None:
    with pytest.raises(Refused, match=rf"{word.replace('=', ' is ')}, which is a relative path; make it absolute"):
        gathered(node(word))


def test_files_of_a_run_that_are_mounted_where_they_lie_are_told() -> None:
    manifests = "/etc/kubernetes/manifests"
    points = {"/": 1, PROGRAM: 1, manifests: 1, f"{manifests}/etcd.yaml": 3, "/etc/other": 1}
    lines = (f"{number} {above} 8:1 / {at} rw - ext4 /dev/a rw" for number, (at, above) in enumerate(points.items(), 1))
    seen = node(f"--pod-manifest-path={manifests}", files={"/proc/1/mountinfo": "\n".join(lines).encode()})

    assert gathered(seen).readiness.mounted == (PROGRAM, f"{manifests}/etcd.yaml")


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


CONFIG = b"""
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://api:6443"}}]
users: [{name: u, user: {client-certificate: pki/mine.pem, client-key: pki/mine.key}}]
"""
CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@pytest.mark.parametrize(
    ("flags", "files", "problem", "certificates"),
    [
        ((), {}, "there is no /etc/k.conf", {}),
        ((), {"/etc/k.conf": b"["}, "/etc/k.conf is not a kubeconfig", {}),
        ((), {"/etc/k.conf": b"[]"}, "/etc/k.conf is not a kubeconfig", {}),
        ((), {"/etc/k.conf": CONFIG}, "there is no /etc/pki/mine.pem, which /etc/k.conf names", {}),
        ((), {"/etc/k.conf": CONFIG, "/etc/pki/mine.pem": b"m", CURRENT: b"c"}, "", {"/etc/pki/mine.pem": b"m"}),
        (("--rotate-certificates=true",), {"/etc/k.conf": CONFIG, CURRENT: b"c"}, "", {CURRENT: b"c"}),
        ((), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", b"exec: {}")}, "", {}),
        ((), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", b"token: t")}, "", {}),
        (
            (), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki", b"client-certificate-data: bQ==, x: pki")},
            "", {"/etc/k.conf": b"m"},
        ),
    ],
)  # fmt: skip
def test_credentials_are_looked_for(
    flags: tuple[str, ...], files: dict[str, bytes], problem: str, certificates: dict[str, bytes]
) -> None:
    found = gathered(node("--kubeconfig=/etc/k.conf", *flags, files=files)).readiness.host.identity

    assert found is not None
    assert (found.problem, dict(found.certificates)) == (problem, certificates)


@pytest.mark.parametrize(
    ("instead", "by_program"),
    [
        (b"exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws-iam-authenticator}", True),
        (b"exec: {}", True),
        (b"token: t, exec: {command: other}", False),
        (b"username: me", False),
    ],
)
def test_credentials_that_a_program_prints_are_known_as_such(instead: bytes, by_program: bool) -> None:
    files = {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", instead)}

    found = gathered(node("--kubeconfig=/etc/k.conf", files=files)).readiness.host.identity

    assert found is not None
    assert found.by_program is by_program


def test_credentials_are_looked_at_by_the_clock_of_the_api_server() -> None:
    beat = {"type": "Ready", "lastHeartbeatTime": "2026-11-21T21:14:37Z"}
    stored = {"manager": "kubelet", "subresource": "status", "time": "2026-11-21T22:14:37Z"}
    files = {"/etc/k.conf": CONFIG}
    slow: Json = {"metadata": {"managedFields": [stored]}, "status": {"conditions": [beat]}}

    moments = [
        each.readiness.host.identity
        for each in (
            gathered(node("--kubeconfig=/etc/k.conf", files=files)),
            gathered(node("--kubeconfig=/etc/k.conf", files=files), node_object=slow),
        )
    ]

    assert moments[0] is not None
    assert moments[1] is not None
    assert moments[1].now - moments[0].now == timedelta(hours=1)


def test_what_the_kernel_says_about_memory_is_read_in_bytes() -> None:
    lines = b"MemAvailable:    2048 kB\nHugePages_Total:       3\nHugetlb:         6144 kB\nodd: 1 MB\nodd\n"

    assert gathered(node()).readiness.host.memory == {}
    read = gathered(node(files={"/proc/meminfo": lines})).readiness.host.memory
    assert read == {"MemAvailable": 2048 * 1024, "HugePages_Total": 3, "Hugetlb": 6144 * 1024}


def test_inotify_instances_are_counted_where_their_limit_is_known() -> None:
    limit = {"/proc/sys/fs/inotify/max_user_instances": b"128\n"}

    assert gathered(node()).readiness.host.inotify is None
    assert gathered(node(files=limit)).readiness.host.inotify == (3, 128)


@pytest.mark.parametrize(
    ("there", "search_path", "found"),
    [
        (("/usr/bin/ln", "/bin/ln"), "", "/usr/bin/ln"),
        (("/usr/bin/ln", "/usr/local/bin/ln"), "", "/usr/local/bin/ln"),
        ((), "", ""),
        (("/usr/bin/ln",), "/opt/bin", ""),
    ],
)
def test_a_program_without_a_path_is_looked_for_where_systemd_does(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], search_path: str, found: str
) -> None:
    seen = node(files=dict.fromkeys(there, b""))
    real = seen.services.status
    linking = UnitCommand(when="ExecStartPre", program="ln", line="ln -sf /run/a.sock /run/b.sock")

    def status(unit: str) -> UnitStatus:
        known = real(unit)
        return replace(known, commands=(*known.commands, linking), search_path=search_path)

    monkeypatch.setattr(seen.services, "status", status)

    assert gathered(seen).programs == {"ln": found}


@pytest.mark.parametrize(("leads_to", "started"), [(PROGRAM, PROGRAM), ("/opt/wrapper", "/opt/wrapper"), (None, None)])
def test_a_link_that_a_unit_starts_is_followed(
    monkeypatch: pytest.MonkeyPatch, leads_to: str | None, started: str | None
) -> None:
    seen = node()
    path = None if leads_to is None else PurePosixPath(leads_to)
    monkeypatch.setattr(seen.files, "real", lambda _path: path)

    assert gathered(seen).kubelet.started == started


OWNER = "0::/system.slice/my-containerd.service\n"


@pytest.mark.parametrize(
    ("cgroup", "shown", "kind", "found"),
    [
        (OWNER, {}, {}, "my-containerd.service"),
        ("1:name=systemd:/system.slice/my-containerd.service\n0::/\n", {}, {}, "my-containerd.service"),
        (OWNER, {"main_pid": 7}, {}, RUNTIME_UNIT),
        (OWNER, {"load_state": "not-found"}, {}, RUNTIME_UNIT),
        (OWNER, {"active_state": "failed"}, {}, RUNTIME_UNIT),
        (OWNER, {}, {"other_units": False}, RUNTIME_UNIT),
        ("0::/system.slice\n", {}, {}, RUNTIME_UNIT),
        ("0::/user.slice/user@0.service/my-containerd.service\n", {}, {}, RUNTIME_UNIT),
    ],
)
def test_the_runtimes_unit_is_the_one_whose_main_process_answers(
    monkeypatch: pytest.MonkeyPatch, cgroup: str, shown: dict[str, Any], kind: dict[str, Any], found: str
) -> None:
    seen = node(files={f"/proc/{MAIN_PID}/cgroup": cgroup.encode()})
    monkeypatch.setattr(seen.runtime, "kind", replace(seen.runtime.kind, **{"other_units": True, **kind}))
    real, known = (
        seen.services.status,
        {"main_pid": MAIN_PID, "load_state": "loaded", "active_state": "active", **shown},
    )

    def status(unit: str) -> UnitStatus:
        if unit == RUNTIME_UNIT:
            return replace(real(unit), load_state="not-found", active_state="inactive", main_pid=0)
        return replace(real(unit), **known) if unit == "my-containerd.service" else real(unit)

    monkeypatch.setattr(seen.services, "status", status)

    facts = gathered(seen)

    assert facts.runtime_unit.name == facts.runtime_found.unit.name == facts.runtime_start.unit == found
    assert (ask((runtime_is_the_unit,), facts.runtime_found) == ()) is (found != RUNTIME_UNIT)


def test_a_runtime_that_answers_as_its_usual_unit_is_looked_for_nowhere_else() -> None:
    seen = node()

    assert gathered(seen).runtime_unit.name == RUNTIME_UNIT
