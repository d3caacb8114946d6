"""Tests for the containerd adapter: requests in the containerd log and the directories that containerd reports."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.runtimes.containerd import containerd
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.containerd.restart_hazards import BUNDLES, SHIM_PATH, with_pids_asked
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as cri
from nodeupgrade.node.runtimes.cri.client import CriClient, CriVersion
from nodeupgrade.node.runtimes.cri.connection import NotFound
from nodeupgrade.node.runtimes.cri.restart_hazards import version_numbers
from nodeupgrade.node.runtimes.description import RuntimeAtWork, RuntimeInfo, RuntimePlaces
from nodeupgrade.node.runtimes.inventory import ContainerInstance, Inventory
from tests.builders.sound import instance, inventory, unit

asked_to_stop = ContainerdRuntime(
    Path("unused"), processes=ProcessTable(), files=HostFiles(), services=SystemdManager()
).asked_to_stop
ID, SANDBOX = "3f" * 32, "a0" * 32
TEXT = (
    'time="2026-01-02T03:04:05.678901234Z" level=info msg="containerd successfully booted in 0.052441s"',
    f'time="2026-01-02T03:04:06.1Z" level=info msg="StopContainer for \\"{ID}\\" with timeout 30 (s)"',
    f'time="2026-01-02T03:04:06.2Z" level=info msg="Stop container \\"{ID}\\" with signal terminated"',
    f'time="2026-01-02T03:04:07.3Z" level=info msg="StopPodSandbox for \\"{SANDBOX}\\""',
)
JSON = (
    '{"level":"info","msg":"containerd successfully booted in 0.05s","time":"2026-01-02T03:04:05Z"}',
    f'{{"level":"info","msg":"StopContainer for \\"{ID}\\" with timeout 30 (s)","time":"2026-01-02T03:04:06Z"}}',
    f'{{"level":"info","msg":"RemovePodSandbox for \\"{SANDBOX}\\"","time":"2026-01-02T03:04:07Z"}}',
)


def test_a_container_whose_shim_was_too_slow_is_asked_about_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """containerd lists the task of a shim that does not answer within two seconds with PID 0."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text(f"7 (sh) S 1 {' 0' * 17} 5 0 0\n")
    runtime = ContainerdRuntime(
        Path("unused"), processes=ProcessTable(tmp_path), files=HostFiles(), services=SystemdManager()
    )
    runs = cri.Container(id=ID, pod_sandbox_id=SANDBOX, state=cri.CONTAINER_RUNNING)
    answers = iter([pb.ListTasksResponse(tasks=[pb.Task(id=ID, pid=pid)]) for pid in (0, 7)])
    monkeypatch.setattr(runtime, "_listed", lambda: ((runs,), ()))
    monkeypatch.setattr(CriClient, "served", lambda _: (CriVersion.V1,))
    monkeypatch.setattr(runtime.connection, "call", lambda *_: next(answers))

    seen = [runtime.inventory().container(ContainerId(ID)) for _ in range(3)]

    assert [each and each.process and each.process.pid for each in seen] == [None, 7, 7]


def test_a_sandbox_that_has_ended_is_not_asked_for_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may hold hundreds, of finished Jobs, and each call is made while no kubelet runs."""
    asked: list[str] = []

    def sandbox_statuses(_client: CriClient, ids: Iterable[str]) -> dict[str, cri.PodSandboxStatusResponse]:
        asked.extend(ids)
        return {}

    runtime = ContainerdRuntime(
        Path("unused"), processes=ProcessTable(tmp_path), files=HostFiles(), services=SystemdManager()
    )
    states = {"runs": cri.SANDBOX_READY, "ended": cri.SANDBOX_NOTREADY}
    sandboxes = tuple(cri.PodSandbox(id=name, state=state) for name, state in states.items())
    monkeypatch.setattr(runtime, "_listed", lambda: ((), sandboxes))
    monkeypatch.setattr(CriClient, "sandbox_statuses", sandbox_statuses)
    monkeypatch.setattr(CriClient, "served", lambda _: (CriVersion.V1,))
    monkeypatch.setattr(runtime.connection, "call", lambda *_: pb.ListTasksResponse())

    runtime.inventory(addresses=True)

    assert asked == ["runs"]


@pytest.mark.parametrize("lines", [TEXT, JSON], ids=["text", "json"])
def test_requests_are_found_in_either_format(lines: tuple[str, ...]) -> None:
    assert asked_to_stop(lines) == frozenset({ID, SANDBOX})
    assert asked_to_stop(lines[:1]) == frozenset()


def test_exits_and_creations_are_no_requests() -> None:
    others = (
        f'level=info msg="CreateContainer within sandbox \\"{SANDBOX}\\" for container &ContainerMetadata{{Name:a}}"',
        f'level=info msg="RemoveContainer for \\"{ID}\\""',
        f'level=info msg="shim disconnected" id={ID}',
    )

    assert asked_to_stop((TEXT[0], *others)) == frozenset()


@pytest.mark.parametrize(
    "lines",
    [(), ('level=warning msg="cleaning up"',), (*TEXT, "Suppressed 1204 messages from containerd.service")],
    ids=["nothing", "warnings only", "lines were dropped"],
)
def test_a_log_with_gaps_tells_nothing(lines: tuple[str, ...]) -> None:
    assert asked_to_stop(lines) is None


QUOTED = f'msg=\\"StopContainer for \\\\\\"{ID}\\\\\\" with timeout 30 (s)\\"'
FAKES = (
    f'time="2026-01-02T03:04:06.1Z" level=error msg="exec failed" error="level=info StopContainer for \\"{ID}\\""',
    f'time="2026-01-02T03:04:06.1Z" level=error msg="exec failed: time=\\"x\\" level=info {QUOTED}"',
    json.dumps({"level": "error", "msg": f'"level":"info" StopContainer for "{ID}"', "time": "2026-01-02T03:04:06Z"}),
)


@pytest.mark.parametrize("fake", FAKES)
def test_what_a_pod_writes_into_the_log_is_neither_a_request_nor_its_level(fake: str) -> None:
    assert asked_to_stop((fake,)) is None
    assert asked_to_stop((TEXT[0], fake)) == frozenset()


TOLD = {
    "containerdRootDir": "/var/lib/containerd",
    "stateDir": "/run/containerd/io.containerd.grpc.v1.cri",
    "containerdEndpoint": "/run/c.sock",
}


@pytest.mark.parametrize(
    ("info", "places"),
    [
        (
            {"config": json.dumps(TOLD)},
            RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/c.sock"),
        ),
        ({}, None),
        ({"config": "no JSON"}, None),
        ({"config": "[]"}, None),
        ({"config": json.dumps({**TOLD, "stateDir": ""})}, None),
        ({"config": json.dumps({"containerdRootDir": "/x"})}, None),
    ],
)
def test_places_are_told_completely_or_not_at_all(info: dict[str, str], places: RuntimePlaces | None) -> None:
    assert containerd.reported_places(info) == places


def at_work(*runs: ContainerInstance, version: str) -> RuntimeAtWork:
    return RuntimeAtWork(
        info=RuntimeInfo(name="containerd", version=version, cri_versions=()),
        unit=unit("containerd.service"),
        inventory=inventory(*runs),
        listing_seconds=0.1,
    )


@pytest.mark.parametrize(("status", "lost"), [(pb.RUNNING, 0), (pb.PAUSED, 1), (pb.PAUSING, 1)])
def test_the_cri_does_not_show_that_a_container_is_paused_so_containerd_is_asked(
    status: pb.TaskStatus, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = ContainerdRuntime(Path("unused"), processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    runs = instance("1")
    tasks = pb.ListTasksResponse(tasks=[pb.Task(id=runs.id, status=status)])
    monkeypatch.setattr(runtime.connection, "ask", lambda *_: tasks)
    monkeypatch.setattr(runtime, "_places", lambda: None)
    monkeypatch.setattr(CriClient, "container_statuses", lambda *_: {})
    monkeypatch.setattr(runtime, "inventory", Inventory)
    seen = at_work(runs, version="1.7.2")

    assert len(runtime.restart_hazards(seen).pods) == lost


ERROR, UNKNOWN_CALL = StepFailed("read cgroup.procs: operation not supported"), NotFound("Pids is not supported")


@pytest.mark.parametrize("version", ["1.6.39", "1.7.0", "1.7.34", "2.0.11", "2.3.3", "2.3.4"])
@pytest.mark.parametrize(
    ("answers", "runs_on", "lost"),
    [
        ((ERROR, ERROR), True, ("1.7.0", "2.3.4")),
        ((Unimplemented("no"),) * 2, True, ("1.7.0", "2.3.4")),
        ((Transient("DEADLINE_EXCEEDED"),) * 2, True, ("1.7.0", "2.3.4")),
        ((UNKNOWN_CALL, UNKNOWN_CALL), True, ("1.7.0", "9")),
        ((ERROR, ERROR), False, None),
        ((ERROR, NotFound("it has ended")), False, None),
        ((ERROR,), True, None),
        ((), True, None),
    ],
)
def test_a_restart_loses_what_no_processes_can_be_listed_of(
    answers: tuple[Exception, ...],
    runs_on: bool,
    lost: tuple[str, str] | None,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A containerd that starts takes its shim for one that was left over (#6866, #13784)."""
    runtime = ContainerdRuntime(Path("unused"), processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    runs, other, left = instance("1"), instance("2", name="other"), list(answers)

    def ask(method: object, request: pb.ListPidsRequest) -> object:
        if method is not containerd.LIST_PIDS:
            status = pb.RUNNING if runs_on else pb.STOPPED
            return pb.ListTasksResponse(tasks=[pb.Task(id=runs.id, status=status)])
        if left and request.container_id == runs.id:
            raise left.pop(0)
        return pb.ListPidsResponse()

    monkeypatch.setattr(runtime.connection, "ask", ask)
    monkeypatch.setattr(runtime, "_places", lambda: None)
    monkeypatch.setattr(CriClient, "container_statuses", lambda *_: {})
    monkeypatch.setattr(runtime, "inventory", Inventory)
    seen = at_work(runs, other, version=version)

    found = [finding.subject for finding in runtime.restart_hazards(seen).pods]

    first, fixed = map(version_numbers, lost or ("9", "9"))
    assert found == ([runs.label] if first <= version_numbers(version) < fixed else [])


@pytest.mark.parametrize(("version", "asked"), [("1.7.34", True), ("2.0.0", False)])
def test_what_sandboxes_run_is_known_from_2_0_on(version: str, asked: bool) -> None:
    seen = at_work(instance("1"), version=version)
    [sandbox] = seen.inventory.sandboxes

    assert (sandbox.id in set(with_pids_asked(seen))) is asked


def test_where_shims_are_looked_for_is_asked_if_it_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = HostFiles(tmp_path)
    runtime = ContainerdRuntime(Path("unused"), processes=ProcessTable(), files=files, services=SystemdManager())
    runs = instance("1")
    bundle = tmp_path / "run/containerd" / BUNDLES / runs.id
    bundle.mkdir(parents=True)
    (bundle / SHIM_PATH).write_text("/opt/gone")
    monkeypatch.setattr(runtime.connection, "ask", lambda *_: pb.ListTasksResponse())
    monkeypatch.setattr(CriClient, "status_info", lambda _: {"config": json.dumps(TOLD)})
    monkeypatch.setattr(CriClient, "container_statuses", lambda *_: {})
    monkeypatch.setattr(runtime, "inventory", Inventory)
    seen = at_work(runs, version="1.7.2")

    [finding] = runtime.restart_hazards(seen).pods

    assert "/opt/gone" in finding.detail


def test_the_cri_says_where_containers_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of pods that need not survive, such as the agent's: a restart waits for the reader of any FIFO."""
    (tmp_path / "logs").mkdir()
    os.mkfifo(tmp_path / "logs/0.log")
    files = HostFiles(tmp_path)
    runtime = ContainerdRuntime(Path("unused"), processes=ProcessTable(), files=files, services=SystemdManager())
    runs, silent = instance("1"), instance("2", name="other")
    logs: dict[str, str] = {runs.id: "/logs/0.log", silent.id: ""}

    def statuses(_: CriClient, ids: Iterable[str]) -> dict[str, cri.ContainerStatusResponse]:
        return {each: cri.ContainerStatusResponse(status=cri.ContainerStatus(log_path=logs[each])) for each in ids}

    monkeypatch.setattr(runtime.connection, "ask", lambda *_: pb.ListTasksResponse())
    monkeypatch.setattr(runtime, "_places", lambda: None)
    monkeypatch.setattr(CriClient, "container_statuses", statuses)
    monkeypatch.setattr(runtime, "inventory", lambda: inventory(runs, silent))
    seen = at_work(silent, version="1.6.39")

    [finding] = runtime.restart_hazards(seen).pods

    assert (finding.subject, "/logs/0.log" in finding.detail) == (runs.label, True)
