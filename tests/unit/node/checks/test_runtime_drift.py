"""What would keep a runtime from coming back as it runs, and what only looks like it."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.node.checks import runtime, runtime_drift
from nodeupgrade.node.runtimes.containerd.command_line import TUNED_CONFIG as CONFIG
from nodeupgrade.node.runtimes.containerd.command_line import is_same_start
from nodeupgrade.node.runtimes.description import RuntimeAsFound, RuntimePlaces, RuntimeProcess
from tests.builders.sound import runtime_found, unit

CHECKS = tuple(check for check in checks_of(runtime, runtime_drift, warns=False) if check.facts is RuntimeAsFound)
DRIFT, UNSUPPORTED = Reason.RUNTIME_CONFIGURATION_DRIFT, Reason.UNSUPPORTED_RUNTIME
UNANSWERED = Reason.RUNTIME_DID_NOT_ANSWER
PROGRAM = "/usr/bin/containerd"
NEXT = frozenset({"would_be", "complaint", "unknown", "driver"})
PLACES = RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/containerd.sock")


def process(*words: str, pid: int = 7, program: str = "2") -> RuntimeProcess:
    return RuntimeProcess(pid=pid, words=words or (PROGRAM,), program=Digest(program * 64))


def started_by(*command: str) -> Any:
    return unit("containerd.service", program=PROGRAM, command=command)


def found(**fields: Any) -> RuntimeAsFound:
    """A runtime that would come back as it is, but for what is told of it; its command line is judged as ever."""
    seen = runtime_found(**{name: value for name, value in fields.items() if name not in NEXT})
    words = () if seen.process is None else seen.process.words
    return replace(
        seen,
        next=replace(
            seen.next,
            places=fields.get("would_be", PLACES),
            complaint=fields.get("complaint", ""),
            unknown=fields.get("unknown", ""),
            cgroup_driver=fields.get("driver"),
            as_it_runs=is_same_start(seen.unit.command, words),
        ),
    )


FOUND: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "nobody to be seen": ({"process": None}, UNSUPPORTED, "it is unknown which process serves"),
    "another process": ({"process": process(pid=8), "owner": "dockerd.service"}, UNSUPPORTED, "8 of dockerd.service"),
    "another process of no service": ({"process": process(pid=8), "owner": ""}, UNSUPPORTED, "process 8 serves"),
    "a flag more": ({"process": process(PROGRAM, "--root", "/x")}, DRIFT, f"runs as `{PROGRAM} --root /x`"),
    "a flag less": ({"unit": started_by(PROGRAM, "--root", "/x")}, DRIFT, f"would start `{PROGRAM} --root /x`"),
    "another configuration": ({"unit": started_by(PROGRAM, "-c", "/etc/c.toml")}, DRIFT, "-c /etc/c.toml"),
    "ours, and a flag less": ({"process": process(PROGRAM, "--config", str(CONFIG), "--root", "/x")}, DRIFT, "--root"),
    "broken": ({"would_be": None, "complaint": "c.toml: bare keys"}, DRIFT, "c.toml: bare keys; correct that first"),
    "without a variable": ({"missing": "/etc/default/proxy"}, DRIFT, "proxy, which containerd.service needs to start"),
    "too slow": ({"would_be": None, "unknown": "no end"}, UNANSWERED, "is unknown whether"),
    "another root": (
        {"would_be": replace(PLACES, root="/data")},
        DRIFT,
        "root /var/lib/containerd and would start with /data",
    ),
    "another state": ({"would_be": replace(PLACES, state="/run/c")}, DRIFT, "with /run/c"),
    "another address": ({"would_be": replace(PLACES, address="/run/c.sock")}, DRIFT, "with /run/c.sock"),
    "no address": ({"would_be": replace(PLACES, address="")}, DRIFT, "with none"),
    "another cgroup driver": ({"cgroup_driver": "systemd", "driver": "cgroupfs"}, DRIFT, "would start with cgroupfs"),
    "no root": ({"would_be": replace(PLACES, root="")}, DRIFT, "with none"),
    "silence": ({"places": None}, DRIFT, "does not report where"),
    "changed files": ({"changed": ("/a", "/b", "/c", "/d")}, DRIFT, "/a, /b, /c and 1 more: changed after"),
    "another program": ({"program": Digest("3" * 64)}, DRIFT, "is not the program that runs"),
    "no program": ({"program": None, "process": replace(process(), program=None)}, DRIFT, "is not the program"),
}


@pytest.mark.parametrize(("fields", "reason", "told"), FOUND.values(), ids=FOUND.keys())
def test_a_drift_is_named_once(fields: dict[str, Any], reason: Reason, told: str) -> None:
    [finding] = ask(CHECKS, found(**fields))

    assert finding.reason is reason
    assert told in finding.detail


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"process": process(PROGRAM, "--config", str(CONFIG))},
        {"unit": started_by(PROGRAM, "-l", "info"), "process": process(PROGRAM, "--log-level", "info")},
        {
            "unit": started_by(PROGRAM, "--root=/x"),
            "process": process(PROGRAM, "--config", str(CONFIG), "--root", "/x"),
        },
        {"unit": unit("containerd.service", program=PROGRAM), "process": process(PROGRAM, "--root", "/x")},
    ],
)
def test_what_is_none_is_let_pass(fields: dict[str, Any]) -> None:
    """Our own configuration of an earlier run; words whose borders nobody knows."""
    assert ask(CHECKS, found(**fields)) == ()


def test_every_check_is_tried_by_some_drift() -> None:
    tried = {check.name for check in CHECKS for fields, _, _ in FOUND.values() if any(check(found(**fields)))}

    assert tried == {check.name for check in CHECKS}


@pytest.mark.parametrize("harm", [{"would_be": None}, {"would_be": replace(PLACES, root="/data")}])
def test_nobody_is_told_to_restart_a_runtime_that_would_not_come_back(harm: dict[str, Any]) -> None:
    told = ask(CHECKS, found(**harm, changed=("/etc/containerd/config.toml",), program=None))

    assert len(told) == 1
    assert "at a time of your choice" not in told[0].detail
