"""A kubelet is run for a try: what it can reach there (nothing), and what real kubelets say."""

import json
import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest

from e2e.lab.binaries import components
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.trial_command import accepted, dry_run_arguments, objection, unknown_fields
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.running_kubelet import host_kubelet as host
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from nodeupgrade.node.running_kubelet.kubelet import TrialStart

pytestmark = pytest.mark.real

KUBELETS = ("1.15.0", "1.17.17", "1.20.15", "1.30.14", "1.33.13")
PYTHON = Path("/usr/bin/python3")
CONFIG = "/var/lib/kubelet/config.yaml"
ORDINARY = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/ca.crt}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
"""

PROBE = """
import json, os, socket, sys
def tried(act):
    try:
        return f"did it: {act()}"
    except OSError as error:
        return error.strerror
print(json.dumps({
    "write": {top: tried(lambda: os.open(top + "/x", os.O_CREAT | os.O_WRONLY)) for top in sys.argv[1].split(",")},
    "see": sorted(os.listdir("/")),
    "given": open("/etc/given").read(),
    "port": tried(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)),
    "socket": tried(lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[3])),
    "signal": tried(lambda: os.kill(int(sys.argv[4]), 0)),
    "mount": tried(lambda: os.chroot("/usr")),
    "devices": tried(lambda: os.mknod("/x", 0o60600, os.makedev(8, 0))),
    "self": os.getpid(),
    "variables": sorted(os.environ),
}))
"""


def run(program: Path, trial: TrialStart) -> str:
    return HostKubelet(ProcessTable()).dry_run(PurePosixPath(program), trial)


def kubelet(version: str, config: str, *words: str, **given: str) -> str:
    trial = TrialStart(
        words=dry_run_arguments((f"--config={CONFIG}", *words)), environment=given, files={CONFIG: config.encode()}
    )
    return run(components.resolve("kubelet", version), trial)


def test_what_is_tried_can_touch_nothing(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("the probe needs a Python of the system")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        words = (
            "-c",
            PROBE,
            "/,/etc,/usr/lib",
            str(server.getsockname()[1]),
            str(tmp_path / "socket"),
            str(os.getpid()),
        )
        trial = TrialStart(words=words, environment={"LC_ALL": "C.UTF-8"}, files={"/etc/given": b"this"})

        seen = json.loads(run(PYTHON, trial).splitlines()[-1])

    assert set(seen["write"].values()) == {"Read-only file system"}
    assert {"proc", "sys", "dev", "run", "tmp", "var", "root", "home"} & set(seen["see"]) == set()
    assert seen["given"] == "this"
    assert (seen["port"], seen["socket"]) == ("Network is unreachable", "No such file or directory")
    assert (seen["signal"], seen["self"]) == ("No such process", 2)
    assert {seen["mount"], seen["devices"]} <= {"Operation not permitted", "Read-only file system"}
    assert seen["variables"] == ["LC_ALL"]


def running(word: str) -> list[Path]:
    """Return the processes with a word in their command lines."""
    found = list[Path]()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            found += [process] if word.encode() in process.read_bytes() else []
    return found


def test_what_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    if not PYTHON.exists():
        pytest.skip("the probe needs a Python of the system")
    monkeypatch.setattr(host, "SECONDS", 1)
    before = time.monotonic()
    word = f"import time; time.sleep(98) # {os.getpid()}"

    with pytest.raises(StepFailed, match="did not end within 1 s"):
        run(PYTHON, TrialStart(words=("-c", word), environment={}, files={}))

    assert time.monotonic() - before < 90
    assert running(word) == []


@pytest.mark.parametrize("version", KUBELETS)
def test_kubelets_accept_what_is_ordinary_and_reject_what_is_not(version: str) -> None:
    assert accepted(kubelet(version, ORDINARY))
    assert accepted(kubelet(version, ORDINARY + "serverTLSBootstrap: true", "--cloud-provider=external", "-v=6"))
    assert accepted(kubelet(version, ORDINARY + "tlsCertFile: /etc/a.crt\ntlsPrivateKeyFile: /etc/a.key"))

    assert "must not be a negative number" in objection(kubelet(version, ORDINARY + "maxPods: -5"))
    assert "failed to decode" in objection(kubelet(version, ORDINARY + "podPidsLimit: many"))
    assert "unrecognized feature gate: NoSuchGate" in objection(
        kubelet(version, ORDINARY + "featureGates: {NoSuchGate: true}")
    )
    assert "unrecognized feature gate: A" in objection(kubelet(version, ORDINARY, "--feature-gates=A=true"))
    assert CONFIG in objection(kubelet(version, "]["))


def test_kubelets_judge_what_they_came_to_reject() -> None:
    role = "--node-labels=node-role.kubernetes.io/x=y"
    assert accepted(kubelet("1.15.0", ORDINARY, role))
    for version in KUBELETS[1:]:
        assert "specified with --node-labels: [node-role.kubernetes.io/x]" in objection(
            kubelet(version, ORDINARY, role)
        )
    assert accepted(kubelet("1.30.14", ORDINARY + "runOnce: true"))
    assert "Runonce mode has been deprecated" in objection(kubelet("1.33.13", ORDINARY + "runOnce: true"))
    assert "containerRuntimeEndpoint was not specified" in objection(
        kubelet("1.33.13", ORDINARY, "--container-runtime-endpoint=")
    )
    in_json = kubelet("1.33.13", ORDINARY + "logging: {format: json}\nmaxPods: -5")
    assert objection(in_json).startswith("failed to validate kubelet configuration")


def test_kubelets_name_the_fields_that_they_ignore() -> None:
    for version in KUBELETS[1:]:
        assert unknown_fields(kubelet(version, ORDINARY + "noSuchField: 1")) == ("noSuchField",)


def test_drop_ins_are_read() -> None:
    drop_in = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: "
    words = dry_run_arguments((f"--config={CONFIG}", "--config-dir=/etc/k.d"))

    def tried(files: dict[str, bytes]) -> str:
        given = {CONFIG: ORDINARY.encode(), **files}
        return run(
            components.resolve("kubelet", "1.33.13"),
            TrialStart(words=words, environment={}, files=given, directories=("/etc/k.d",)),
        )

    assert accepted(tried({}))
    assert accepted(tried({"/etc/k.d/1.conf": (drop_in + "100").encode()}))
    assert "maxPods (--max-pods) -1" in objection(tried({"/etc/k.d/1.conf": (drop_in + "-1").encode()}))


def test_the_node_may_be_mounted_elsewhere(tmp_path: Path) -> None:
    """As in the agent's pod; the program is found through a link that is absolute on the node."""
    (tmp_path / "opt").mkdir()
    shutil.copy2(components.resolve("kubelet", "1.33.13"), tmp_path / "opt/kubelet")
    (tmp_path / "opt/link").symlink_to("/opt/kubelet")
    given = TrialStart(
        words=dry_run_arguments((f"--config={CONFIG}",)), environment={}, files={CONFIG: ORDINARY.encode()}
    )

    mounted = HostKubelet(ProcessTable(), root=tmp_path)

    assert accepted(mounted.dry_run(PurePosixPath("/opt/link"), given))
    with pytest.raises(StepFailed, match="could not be tried: "):
        mounted.dry_run(PurePosixPath("/opt/nothing"), given)


def test_the_program_may_be_in_the_pod_that_tries_it(tmp_path: Path) -> None:
    """As for a plan: what is only examined is fetched into the agent's own pod, and named as the node sees it there."""
    (tmp_path / "host").mkdir()
    program = shutil.copy2(components.resolve("kubelet", "1.33.13"), tmp_path / "kubelet")
    given = TrialStart(
        words=dry_run_arguments((f"--config={CONFIG}",)), environment={}, files={CONFIG: ORDINARY.encode()}
    )

    mounted = HostKubelet(ProcessTable(), root=tmp_path / "host")

    assert accepted(mounted.dry_run(PurePosixPath(f"/proc/{os.getpid()}/root{program}"), given))
