"""What the new kubelet says to the command line and the configuration that it would start with."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.run_settings import FlagPolicy
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelet.trial_command import dry_run_arguments
from nodeupgrade.node.running_kubelet.kubelet import TrialStart
from tests.builders.gathered import gathered, node
from tests.doubles.node import SimulatedNode

REJECTS = ("--a", "--b")


def picky(monkeypatch: pytest.MonkeyPatch, seen: SimulatedNode) -> None:
    """The new kubelet rejects two flags, one at a time."""

    def version_output(_binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        unknown = next((flag for flag in REJECTS if any(word.partition("=")[0] == flag for word in arguments)), None)
        return (1, f"unknown flag: {unknown}") if unknown else (0, "Kubernetes v1.33.13")

    monkeypatch.setattr(seen.kubelet, "version_output", version_output)


@pytest.mark.parametrize(
    ("fields", "removed", "status"),
    [
        ({}, (), 1),
        ({"remove_flags": ("--a",)}, ("--a",), 1),
        ({"remove_flags": ("a", "b")}, ("--a", "--b"), 0),
        ({"flag_policy": FlagPolicy.STRIP}, ("--a", "--b"), 0),
    ],
)
def test_flags_go_only_where_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], removed: tuple[str, ...], status: int
) -> None:
    seen = node("--v=2", "--a=1", "--b", "2")
    picky(monkeypatch, seen)

    found = gathered(seen, **fields).kubelet

    assert (found.arguments.removed, found.arguments_status) == (removed, status)


def test_a_flag_that_cannot_be_left_out_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node("-x")
    tries: list[tuple[str, ...]] = []

    def version_output(_binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        tries.append(arguments)
        return 1, "unknown shorthand flag: 'x' in -x"

    monkeypatch.setattr(seen.kubelet, "version_output", version_output)

    assert gathered(seen, flag_policy=FlagPolicy.STRIP).kubelet.arguments_status == 1
    assert tries.count(("-x",)) == 2


def test_a_new_program_that_hangs_is_a_finding_and_no_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()

    def hangs(_binary: PurePosixPath, _arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        raise Transient("it does not end")

    monkeypatch.setattr(seen.kubelet, "version_output", hangs)
    found = gathered(seen).kubelet

    assert (found.staged_version, found.staged_output, found.current) == ("", "it does not end", None)
    assert (found.arguments_status, found.arguments_output) == (1, "it does not end")


def test_the_new_kubelet_tries_the_arguments_files_and_environment_that_it_would_start_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"/etc/k.yaml": b"maxPods: 1", "/etc/k.d/1.conf": b"maxPods: 2", "/etc/k.d/README": b"?"}
    seen = node("--config=/etc/k.yaml", "--config-dir=/etc/k.d", files=files)
    environment = {"NOTIFY_SOCKET": "/run/x", "KUBELET_CONFIG_DROPIN_DIR_ALPHA": "yes"}
    monkeypatch.setattr(seen.ports.kubelet, "environment", lambda _pid: environment)
    tried: list[TrialStart] = []

    def answer(_program: PurePosixPath, trial: TrialStart) -> str:
        tried.append(trial)
        return "said"

    monkeypatch.setattr(seen.ports.kubelet, "dry_run", answer)

    assert gathered(seen).readiness.dry_run == "said"

    (trial,) = tried
    assert trial.words == dry_run_arguments(("--config=/etc/k.yaml", "--config-dir=/etc/k.d"))
    assert trial.files == {"/etc/k.yaml": b"maxPods: 1", "/etc/k.d/1.conf": b"maxPods: 2"}
    assert (trial.directories, trial.environment) == (("/etc/k.d",), {"KUBELET_CONFIG_DROPIN_DIR_ALPHA": "yes"})


def test_a_kubelet_that_cannot_be_tried_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()

    def cannot(_program: PurePosixPath, _trial: TrialStart) -> str:
        raise StepFailed("unshare: Operation not permitted")

    monkeypatch.setattr(seen.ports.kubelet, "dry_run", cannot)

    assert gathered(seen).readiness.dry_run == "unshare: Operation not permitted"


def test_arguments_that_the_new_kubelet_rejects_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node("--unknown")
    monkeypatch.setattr(seen.ports.kubelet, "version_output", lambda *_: (1, "unknown flag: --unknown"))

    found = gathered(seen)

    assert (found.kubelet.arguments_status, found.readiness.dry_run) == (1, None)
