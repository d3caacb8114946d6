"""Tests for the executor's units: their settings, installation, and removal."""

import shutil
import subprocess
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade import bundle
from nodeupgrade.errors import StepFailed
from nodeupgrade.node import exit_codes
from nodeupgrade.node.executor import units
from nodeupgrade.node.host.systemd.drop_ins import OWN_CHANGE
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import DEAD_MAN_TIMER, LEASE_KEEPER, SHIELD, SPARE_EXECUTOR
from nodeupgrade.node.plan.plan import ShieldPlan
from nodeupgrade.node.rescue import script, timeouts
from nodeupgrade.node.runtimes.description import TRANSIENT_UNITS
from tests.builders.executor_plan import BUNDLE, BUNDLES, PLAN
from tests.builders.looks import at_once
from tests.doubles.node import SimulatedNode
from tests.doubles.node.containers.runtime_restart import TUNED_CONFIG

SHIELDED = replace(PLAN, shield=ShieldPlan(socket="/run/odd %d/containerd.sock"))

DROP_IN = "/etc/systemd/system/kubelet.service.d/80-nodeupgrade-executor.conf"
SYSTEMD = "/etc/systemd/system"


def sections(text: str) -> dict[str, dict[str, str]]:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(version="v1.30.14", pods=[])


def install(node: SimulatedNode) -> None:
    units.install(node.ports.files, node.ports.services, BUNDLES, PLAN, look=at_once)


def remove(node: SimulatedNode) -> None:
    units.remove(node.ports.files, node.ports.services, "kubelet.service", [node.runtime.kind])


def traceless(node: SimulatedNode) -> dict[str, bytes]:
    """The disk without the record of our changes, which is kept beside the runs."""
    return {path: data for path, data in node.disk.items() if path != str(OWN_CHANGE)}


def test_the_executor_outlives_what_kills_it_but_not_what_needs_a_human() -> None:
    unit = sections(units.executor_unit(BUNDLE, PLAN.runtime_unit))

    assert unit["Service"]["ExecStart"] == " ".join(bundle.command(BUNDLE, "nodeupgrade.node.executor.process"))
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["RestartPreventExitStatus"] == str(exit_codes.EXIT_NEEDS_A_HUMAN)
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "systemd never gives up on it"
    assert unit["Service"]["WatchdogSec"] == str(units.WATCHDOG_SECONDS)
    assert unit["Service"]["WatchdogSignal"] == "SIGKILL", "no other ends a process that is frozen"
    assert float(unit["Service"]["TimeoutStopSec"]) + units.WATCHDOG_SECONDS < 20, "where systemd knows no signal"
    assert "containerd.service" in unit["Unit"]["After"]
    assert "kubelet" not in unit["Unit"]["After"], "the kubelet waits for the executor, not the other way round"


def test_the_kubelet_waits_for_the_executor_and_survives_without() -> None:
    assert sections(units.KUBELET_DROP_IN) == {"Unit": {"Wants": units.EXECUTOR, "After": units.EXECUTOR}}


def test_the_timer_brings_the_executor_back() -> None:
    timer = sections(units.DEAD_MAN)["Timer"]

    assert timer["Unit"] == units.EXECUTOR
    assert timer["OnUnitInactiveSec"] == timer["OnActiveSec"] == str(units.DEAD_MAN_SECONDS)


def test_the_trial_is_of_what_the_executor_is_started_by() -> None:
    trial, executor = (
        sections(text)["Service"] for text in (units.trial_unit(BUNDLE), units.executor_unit(BUNDLE, PLAN.runtime_unit))
    )

    assert trial["ExecStart"] == f"-{executor['ExecStart']} {units.TRY_OUT}", "the dash: its failure alarms nobody"
    for setting in ("Environment", "OOMScoreAdjust", "Nice"):
        assert trial[setting] == executor[setting]
    assert trial["RemainAfterExit"] == "yes", "or systemd would have forgotten how it ended"


def test_a_trial_leaves_nothing_and_starts_afresh(node: SimulatedNode) -> None:
    before = dict(node.disk)
    node.services.active.add(units.TRIAL)  # of an agent that was lost

    assert units.try_out(node.ports.files, node.ports.services, BUNDLE) == ""

    done = node.calls.effects
    assert done.index(f"services.stop {units.TRIAL}") < done.index(f"services.start {units.TRIAL}")
    assert traceless(node) == before
    assert units.TRIAL not in node.services.active


def test_a_program_that_systemd_skips_without_a_word_has_failed_the_trial(node: SimulatedNode) -> None:
    """As systemd 252 does with a dash before a program that it may not execute: the unit succeeds, with status 0."""
    node.services.unstartable.add(units.TRIAL)
    before = dict(node.disk)

    problem = units.try_out(node.ports.files, node.ports.services, BUNDLE)

    assert problem.startswith(f"{units.TRIAL} is active (exited), result success")
    assert problem.endswith("Permission denied")
    assert traceless(node) == before


def test_another_executor_runs_from_the_other_copy_of_the_bundle(node: SimulatedNode) -> None:
    install(node)

    first, other = (
        node.disk[f"{directory}/{unit}"].decode()
        for directory, unit in (("/etc/systemd/system", units.EXECUTOR), ("/run/systemd/system", SPARE_EXECUTOR))
    )
    assert str(BUNDLE) in first
    assert other == first.replace(str(BUNDLES[0]), str(BUNDLES[1]))
    assert SPARE_EXECUTOR not in node.services.active


def test_the_rescue_needs_no_bundle() -> None:
    service, timer = sections(units.RESCUE), sections(units.RESCUE_TIMER)["Timer"]

    assert service["Service"]["ExecStart"] == f"/bin/sh {script.SCRIPT}"
    assert service["Service"]["Type"] == "oneshot"
    assert timer["Unit"] == script.UNIT
    assert timer["OnUnitInactiveSec"] == timer["OnActiveSec"] == str(timeouts.LOOK_SECONDS)
    assert "bundle" not in units.RESCUE + units.RESCUE_TIMER


def test_the_lease_keeper_ends_when_the_budget_is_spent() -> None:
    service = sections(units.lease_keeper_unit(BUNDLE, PLAN))["Service"]

    assert '"--kubeconfig" "/etc/kubernetes/kubelet 100%%.conf" "--environment" "/run/' in service["ExecStart"]
    assert '"--node" "node-a" "--seconds"' in service["ExecStart"]
    assert service["ExecStart"].endswith('"--seconds" "35"')
    assert int(service["RuntimeMaxSec"]) > PLAN.limits.kubelet_down
    assert "Restart" not in service
    for text in (units.lease_keeper_unit(BUNDLE, PLAN), units.RESCUE):
        assert sections(text)["Unit"]["CollectMode"] == "inactive-or-failed", "systemd forgets it, however it ended"


def test_the_shield_comes_back_unless_it_has_ended_on_purpose() -> None:
    unit = sections(units.shield_unit(BUNDLE, ShieldPlan(socket="/run/odd %d/containerd.sock")))

    assert unit["Service"]["ExecStart"].endswith(
        '"nodeupgrade.node.shield.process" "--socket" "/run/odd %%d/containerd.sock"'
    )
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["RestartSec"] == "100ms"
    assert unit["Service"]["RestartPreventExitStatus"] == str(exit_codes.EXIT_NEEDS_A_HUMAN)
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "systemd never gives up on it"
    assert int(unit["Service"]["LimitNOFILE"]) > 1024, "connections that others leave open keep no kubelet out"


def test_the_shield_is_installed_if_it_is_planned(node: SimulatedNode) -> None:
    path = f"/run/systemd/system/{SHIELD}"
    before = dict(node.disk)
    units.install(node.ports.files, node.ports.services, BUNDLES, replace(PLAN, shield=None), look=at_once)
    assert path not in node.disk
    units.install(node.ports.files, node.ports.services, BUNDLES, SHIELDED, look=at_once)
    assert node.disk[path].decode() == units.shield_unit(BUNDLE, SHIELDED.shield or ShieldPlan(socket=""))

    remove(node)
    assert traceless(node) == before


@pytest.mark.parametrize("healed", [True, False])
def test_a_shield_that_was_killed_is_lowered_before_its_unit_is_removed(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch, *, healed: bool
) -> None:
    """Without an unfinished run, a start of it lowers the shield and ends."""
    units.install(node.ports.files, node.ports.services, BUNDLES, SHIELDED, look=at_once)
    real = node.services.status
    result = "timeout"

    def status(unit: str) -> UnitStatus:
        return replace(real(unit), load_state="loaded", result=result) if unit == SHIELD else real(unit)

    def start(unit: str, *, wait: bool = True) -> None:
        nonlocal result
        assert (unit, wait) == (SHIELD, True)
        result = "success" if healed else "exit-code"

    monkeypatch.setattr(node.services, "status", status)
    monkeypatch.setattr(node.services, "start", start)
    if healed:
        remove(node)
        assert f"/run/systemd/system/{SHIELD}" not in node.disk
    else:
        with pytest.raises(StepFailed, match="may still lead to the shield"):
            remove(node)
        assert f"/run/systemd/system/{SHIELD}" in node.disk


def test_systemd_reads_the_units_before_it_starts_the_executor(node: SimulatedNode) -> None:
    install(node)

    done = node.calls.effects
    written = [done.index(f"files.write {path}") for path in (
        f"{SYSTEMD}/{units.EXECUTOR}", f"{SYSTEMD}/{DEAD_MAN_TIMER}",
        f"/run/systemd/system/{script.TIMER}",
        f"/run/systemd/system/{script.UNIT}", f"/run/systemd/system/{LEASE_KEEPER}", DROP_IN,
    )]  # fmt: skip
    assert max(written) < done.index("services.reload") < done.index(f"services.start {units.EXECUTOR}")
    assert units.EXECUTOR in node.services.active


def test_what_is_installed_twice_is_removed_without_a_trace(node: SimulatedNode) -> None:
    before = dict(node.disk)

    install(node)
    once = dict(node.disk)
    install(node)
    assert node.disk == once
    remove(node)
    remove(node)

    assert traceless(node) == before
    assert node.services.active & {units.EXECUTOR, DEAD_MAN_TIMER} == set()
    assert node.calls.effects[-2:] == ["services.reload", f"files.remove {TUNED_CONFIG}"]


def test_the_tuning_of_all_runtimes_is_removed_with_one_reload(node: SimulatedNode) -> None:
    """A reload of a busy systemd takes long, and reads every unit of the node."""
    drop_in, refers_to = TRANSIENT_UNITS / "other.service.d/tuned.conf", PurePosixPath("/run/other.toml")
    other = replace(node.runtime.kind, tuning=(refers_to, drop_in))
    for path in other.tuning:
        node.ports.files.write(path, b"", mode=0o644)
    done = len(node.calls.effects)

    units.remove(node.ports.files, node.ports.services, "kubelet.service", [node.runtime.kind, other])

    effects = node.calls.effects[done:]
    assert effects.count("services.reload") == 1
    assert effects.index(f"files.remove {drop_in}") < effects.index("services.reload")
    assert effects.index("services.reload") < effects.index(f"files.remove {refers_to}")


def test_what_systemd_still_starts_our_way_remains_to_be_removed(node: SimulatedNode) -> None:
    """Where it could not read its files at the end of a run, although these are gone."""

    def remain() -> bool:
        return units.remain(node.ports.files, node.ports.services, "kubelet.service", [node.runtime.kind])

    for path in node.runtime.kind.tuning:
        node.ports.files.write(path, b"[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config /x\n", mode=0o644)
    node.ports.services.reload(at_once)
    for path in node.runtime.kind.tuning:
        node.ports.files.remove(path)

    assert remain()
    remove(node)
    assert not remain()


def test_units_that_systemd_does_not_know_are_not_stopped(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemctl fails to stop what is not loaded, and the files would stay."""
    unknown = UnitStatus(name="", load_state="not-found", active_state="inactive", sub_state="dead", main_pid=0)
    monkeypatch.setattr(node.services, "status", lambda _unit: unknown)

    remove(node)

    assert [effect for effect in node.calls.effects if effect.startswith("services.stop")] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_them(tmp_path: Path) -> None:
    loader = tmp_path / "bundle" / bundle.LOADER
    loader.parent.mkdir(parents=True)
    loader.write_text("#!/bin/sh\n")
    loader.chmod(0o755)
    root = PurePosixPath(tmp_path / "bundle")
    texts = {
        units.EXECUTOR: units.executor_unit(root, PLAN.runtime_unit),
        DEAD_MAN_TIMER: units.DEAD_MAN,
        LEASE_KEEPER: units.lease_keeper_unit(root, PLAN),
        SHIELD: units.shield_unit(root, ShieldPlan(socket="/run/odd %d/containerd.sock")),
        script.UNIT: units.RESCUE,
        script.TIMER: units.RESCUE_TIMER,
        units.TRIAL: units.trial_unit(root),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    seen = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in texts)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip

    assert [line for line in seen.stderr.splitlines() if str(tmp_path) in line or "nodeupgrade" in line] == []


def test_a_unit_that_ends_between_look_and_stop_is_no_failure(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an executor at its end whose unit's file somebody deleted: systemd does not know it then, and refuses."""
    before = dict(node.disk)
    install(node)
    node.services.lost.add(units.EXECUTOR)
    real = node.services.stop

    def stop(unit: str, *, wait: bool = True) -> None:
        if unit == units.EXECUTOR:
            node.services.active.discard(unit)
        real(unit, wait=wait)

    monkeypatch.setattr(node.services, "stop", stop)

    remove(node)

    assert traceless(node) == before


def test_a_unit_that_does_not_stop_is_a_failure(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    install(node)

    def stop(unit: str, *, wait: bool = True) -> None:
        raise StepFailed(f"cannot keep {unit} stopped")

    monkeypatch.setattr(node.services, "stop", stop)

    with pytest.raises(StepFailed, match="cannot keep"):
        remove(node)
