"""Tests how the runtime's unit, socket, and next start are found."""

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.runtime_drift import runtime_is_the_unit
from nodeupgrade.node.facts import runtime
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.builders.gathered import gathered, node
from tests.doubles.node import SimulatedNode, pod_json
from tests.doubles.node.containers.runtime import MAIN_PID
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({}, ()),
        ({"/usr/share/it": 4e9, "/usr/share/it/hooks": 4e9}, ()),
        ({"/usr/share/it": 4e9, "/usr/share/it/hooks": 4e9 + 1}, ()),
        ({"/usr/share/it": 4e9 + 1, "/usr/share/it/hooks": 4e9}, ("/usr/share/it",)),
        ({"/usr/share/it": 4e9}, ("/usr/share/it",)),
        ({"/etc/it": 4e9, "/usr/share/it/hooks": 4e9}, ("/etc/it",)),
    ],
)
def test_what_the_runtime_made_itself_is_no_change_of_its_configuration(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], found: tuple[str, ...]
) -> None:
    """A file that is not there is told to be gone by its directory's time, which more than a removal changes."""
    seen = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
    unit = seen.services.status(RUNTIME_UNIT)
    following = replace(
        seen.runtime.next_start(unit, None),
        files=("/etc/it/it.conf", "/usr/share/it/it.conf"),
        makes=("/usr/share/it/hooks",),
    )
    monkeypatch.setattr(seen.runtime, "next_start", lambda _unit, _running: following)
    seen.files.touched.update(times)

    looked, _ = runtime.examine_runtime(seen.ports, unit, seen.runtime.info())

    assert looked.changed == found


ENDPOINT = "/run/containerd/containerd.sock"
MOUNTED = f"25 1 253:0 / / rw - ext4 /dev/vda1 rw\n26 25 0:5 /x {ENDPOINT} rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("mounts", "fixed", "mounted"),
    [("", False, False), ("25 1 253:0 / /run ro - tmpfs tmpfs rw\n", True, False), (MOUNTED, False, True)],
    ids=["as usual", "read-only", "a bind mount"],
)
def test_the_socket_is_found_with_what_holds_it(mounts: str, fixed: bool, mounted: bool) -> None:
    seen = gathered(node(files={"/proc/1/mountinfo": mounts.encode()})).socket

    assert (seen.endpoint, seen.path, seen.fixed, seen.mounted) == (ENDPOINT, ENDPOINT, fixed, mounted)
    assert seen.kind.exchangeable_socket


def test_a_socket_that_is_not_there_is_no_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()
    seen.files.sockets.clear()
    assert gathered(seen).socket.obstacle == f"{ENDPOINT} is not a socket"

    def circular(_path: PurePosixPath) -> None:
        raise StepFailed("too many levels of symbolic links")

    monkeypatch.setattr(seen.files, "socket", circular)
    assert gathered(seen).socket.obstacle == "too many levels of symbolic links"


@pytest.mark.parametrize(
    ("setting", "there", "missing"),
    [
        ("/etc/default/proxy", False, "/etc/default/proxy"),
        ("/etc/default/proxy", True, None),
        ("-/etc/default/proxy", False, None),
        ("/etc/default/p*", False, "/etc/default/p*"),
        ("/etc/default/p*", True, None),
        ("/etc/*/proxy", False, None),  # a pattern of directories is not matched
    ],
)
def test_an_environment_file_that_the_runtime_needs_to_start_is_missed(
    setting: str, there: bool, missing: str | None
) -> None:
    seen = node(files={"/etc/default/proxy": b"HTTP_PROXY=http://proxy\n"} if there else {})
    seen.disk[f"/etc/systemd/system/{RUNTIME_UNIT}.d/10-proxy.conf"] = (
        f"[Service]\nEnvironmentFile={setting}\n".encode()
    )
    seen.services.read_unit_files()

    assert gathered(seen).runtime_found.missing == missing


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
