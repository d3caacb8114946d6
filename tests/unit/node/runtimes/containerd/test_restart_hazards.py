"""What a restart of containerd is known to cost, each found once, and what does no harm."""

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.containerd.restart_hazards import find_hazards
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork, RuntimeInfo, RuntimePlaces
from tests.builders.sound import instance, inventory, sandbox, unit
from tests.doubles.node.calls import Calls
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

RUNNING = instance("1")


def containerd(version: str) -> RuntimeInfo:
    return RuntimeInfo(name="containerd", version=version, cri_versions=("v1",))


def found(disk: dict[str, bytes] | None = None, **fields: Any) -> RestartHazards:
    known: dict[str, Any] = {
        "info": containerd("1.7.2"),
        "unit": unit("containerd.service"),
        "inventory": inventory(RUNNING),
        "listing_seconds": 0.1,
    }
    return find_hazards(SimulatedFiles(disk or {}, Calls(Timeline())), RuntimeAtWork(**{**known, **fields}))


HAZARDS: dict[str, tuple[Reason, dict[str, Any], str]] = {
    "one that forgets addresses": (Reason.UNSUPPORTED_RUNTIME, {"info": containerd("1.6.13~ds1")}, "#7843"),
    "one that may not come back": (Reason.UNSUPPORTED_RUNTIME, {"info": containerd("2.1.3")}, "#10848"),
    "one that ends what is created": (Reason.UNSUPPORTED_RUNTIME, {"info": containerd("2.3.1")}, "#13512"),
    "shims that answer late": (Reason.RUNTIME_NOT_READY, {"listing_seconds": 2.6}, "2.6 s"),
    "a shim that does not answer": (
        Reason.RUNTIME_NOT_READY, {"inventory": inventory(replace(RUNNING, process=None))}, "its process is unknown",
    ),
    "a unit that ends its shims": (
        Reason.UNSUPPORTED_RUNTIME,
        {"unit": unit("containerd.service", kill_mode="control-group")},
        "KillMode=control-group",
    ),
    "a container with a shim of its own": (
        Reason.RUNTIME_RESTART_WOULD_KILL_POD,
        {
            "inventory": inventory(
                replace(RUNNING, monitor=Process(pid=5, started=1)),
                sandboxes=(sandbox(monitor=Process(pid=4, started=1)),),
            )
        },
        "process 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "fields", "told"), HAZARDS.values(), ids=HAZARDS.keys())
def test_a_hazard_is_named_once(reason: Reason, fields: dict[str, Any], told: str) -> None:
    hazards = found(**fields)

    [finding] = [*hazards.unit, *hazards.pods, *hazards.runtime]
    assert finding.reason is reason
    assert told in finding.detail


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"info": containerd("1.6.8")},
        {"info": containerd("1.6.20~ds1-1+b1")},
        {"info": containerd("2.1.4-rc.1")},
        {"info": containerd("2.3.2")},
        {"unit": unit("containerd.service", kill_mode="none")},
        {"inventory": inventory(replace(RUNNING, monitor=Process(pid=5, started=1)))},
    ],
)
def test_what_does_no_harm_is_let_pass(fields: dict[str, Any]) -> None:
    assert found(**fields) == RestartHazards()


SHIM = "/opt/1.7.2/containerd-shim-runc-v2"
PLACED = replace(containerd("1.7.2"), places=RuntimePlaces(root="/var/lib/containerd", state="/run/c", address=""))


def bundle(name: str) -> str:
    return f"/run/c/io.containerd.runtime.v2.task/k8s.io/{name}/shim-binary-path"


@pytest.mark.parametrize("where", [RUNNING.id, RUNNING.sandbox_id])
def test_a_shim_whose_program_is_gone_is_named_once(where: str) -> None:
    disk = {bundle(where): SHIM.encode(), bundle("another"): b"/opt/gone"}
    seen = inventory(RUNNING, replace(RUNNING, id=ContainerId("more")), sandboxes=(sandbox(),))

    [finding] = found({**disk, bundle("more"): SHIM.encode()}, info=PLACED, inventory=seen).pods

    assert (finding.reason, finding.subject) == (Reason.RUNTIME_NOT_READY, str(RUNNING.pod))
    assert SHIM in finding.message
    assert found({**disk, bundle("more"): SHIM.encode(), SHIM: b""}, info=PLACED, inventory=seen) == RestartHazards()


@pytest.mark.parametrize("recorded", [b"", b"io.containerd.runc.v2"])
def test_a_shim_that_is_looked_for_by_its_name_is_let_pass(recorded: bytes) -> None:
    assert found({bundle(RUNNING.id): recorded}, info=PLACED) == RestartHazards()


LOG = f"/var/log/pods/{RUNNING.pod.namespace}_web_uid/nginx/0.log"


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"disk": {LOG: b"line"}}, None),
        ({"disk": {"/var/log/syslog": b""}}, None),
        ({"disk": {"/data/syslog": b""}, "links": {"/var/log": "/data"}}, None),
        ({"disk": {f"{LOG}/x": b""}}, f"{LOG} is a directory"),
        ({"disk": {}, "odd": {LOG: "it is a FIFO"}}, f"{LOG} is not a regular file"),
        ({"disk": {}, "sockets": {LOG}}, f"{LOG} is a socket"),
        ({"disk": {"/tmp/x": b""}, "links": {LOG: "/tmp/x"}}, f"{LOG} is a symbolic link"),
        ({"disk": {LOG: b""}, "busy": {LOG}}, f"{LOG} cannot be written"),
        ({"disk": {"/var/log/pods": b""}}, "/var/log/pods is a regular file"),
        ({"disk": {"/proc/x": b""}, "links": {str(PurePosixPath(LOG).parent): "/proc"}}, "nginx is a symbolic link"),
        ({"disk": {LOG.replace("/var/log", "/data"): b""}, "links": {"/var/log": "/data"}}, None),
        (
            {"disk": {LOG.replace("/var/log/pods", "/data"): b""}, "links": {"/var/log/pods": "/data"}},
            "/var/log/pods is a symbolic link",
        ),
        (
            {"disk": {"/proc/x": b""}, "links": {"/var/log/pods": "/proc"}},
            "/var/log/pods is a symbolic link",
        ),
    ],
)
def test_a_log_that_a_starting_containerd_cannot_open_is_named(there: dict[str, Any], told: str | None) -> None:
    files = SimulatedFiles(there.pop("disk"), Calls(Timeline()))
    for name, value in there.items():
        getattr(files, name).update(value)
    seen = RuntimeAtWork(
        info=containerd("1.7.2"), unit=unit("containerd.service"), inventory=inventory(RUNNING), listing_seconds=0.1
    )

    found = find_hazards(files, seen, logs={RUNNING.label: PurePosixPath(LOG)}).pods

    assert [finding.subject for finding in found] == ([RUNNING.label] if told else [])
    assert told is None or told in found[0].detail


def test_whoever_may_write_in_var_log_may_exchange_what_is_above_the_logs(tmp_path: Path) -> None:
    """As where podLogsDir is /var/log/k8s/pods."""
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/k8s").symlink_to("/proc")
    seen = RuntimeAtWork(
        info=containerd("1.7.2"), unit=unit("containerd.service"), inventory=inventory(RUNNING), listing_seconds=0.1
    )
    log = PurePosixPath("/var/log/k8s/pods", *PurePosixPath(LOG).parts[-3:])

    [found] = find_hazards(HostFiles(tmp_path), seen, logs={RUNNING.label: log}).pods

    assert "/var/log/k8s is a symbolic link" in found.detail


def test_logs_may_be_directly_below_the_root(tmp_path: Path) -> None:
    """As with podLogsDir: /."""
    seen = RuntimeAtWork(
        info=containerd("1.7.2"), unit=unit("containerd.service"), inventory=inventory(RUNNING), listing_seconds=0.1
    )
    log = PurePosixPath("/", *PurePosixPath(LOG).parts[-3:])

    assert find_hazards(HostFiles(tmp_path), seen, logs={RUNNING.label: log}).pods == ()


def test_a_log_whose_path_leads_nowhere_is_that_of_one_container(tmp_path: Path) -> None:
    """Who writes where logs are may make links that nobody can follow; the rest of the node is examined still."""
    at = tmp_path / LOG.lstrip("/")
    at.parent.parent.parent.mkdir(parents=True)
    at.parent.parent.symlink_to(at.parent.parent.name)
    seen = RuntimeAtWork(
        info=containerd("1.7.2"), unit=unit("containerd.service"), inventory=inventory(RUNNING), listing_seconds=0.1
    )

    [found] = find_hazards(HostFiles(tmp_path), seen, logs={RUNNING.label: PurePosixPath(LOG)}).pods

    assert (found.reason, found.subject) == (Reason.RUNTIME_RESTART_WOULD_KILL_POD, RUNNING.label)
    assert f"{PurePosixPath(LOG).parents[1]} is a symbolic link" in found.message


@pytest.mark.parametrize(
    ("paused", "subject"), [(RUNNING.id, RUNNING.label), (RUNNING.sandbox_id, str(RUNNING.pod)), ("ended", "")]
)
def test_what_is_paused_is_named(paused: str, subject: str) -> None:
    hazards = find_hazards(
        SimulatedFiles({}, Calls(Timeline())),
        RuntimeAtWork(
            info=containerd("1.7.2"),
            unit=unit("containerd.service"),
            inventory=inventory(RUNNING),
            listing_seconds=0.1,
        ),
        frozenset({paused}),
    )

    assert [(each.reason, each.subject) for each in hazards.pods] == (
        [(Reason.RUNTIME_NOT_READY, subject)] if subject else []
    )
