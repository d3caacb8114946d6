"""What systemd needs to start a unit again, besides its files: it may have gone while the unit ran on."""

from functools import partial

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused
from nodeupgrade.node.journal.journal import Outcome
from tests.doubles.node import plan_for
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT
from tests.doubles.node.kubelet import PROGRAM
from tests.scenario.node_run.test_node_run import LIMITS, Story, story

REQUIRED = "sandbox-image.service"
ARMED = "services.prepare_mask kubelet.service"


def requiring(unit: str, old: str = "v1.30.14") -> Story:
    """A node whose kubelet or runtime requires another unit, as kubelets of Amazon Linux 2 do."""
    it = story(old)
    it.node.services.requires = {unit: ("sysinit.target", REQUIRED)}
    it.node.services.active.add("sysinit.target")
    return it


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
@pytest.mark.parametrize("state", ["failed", "inactive"])
def test_a_required_unit_that_fails_after_the_examination_is_seen_before_the_kubelet_stops(
    unit: str, state: str
) -> None:
    """The unit runs on; the job that starts it ends with "dependency", of which nobody is told."""
    it = requiring(unit)
    it.node.services.requisite = {REQUIRED} if state == "inactive" else set()
    it.node.calls.before(ARMED, lambda: it.node.services.states.update({REQUIRED: state}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert report.message.startswith(f"{unit} requires {REQUIRED}, which is {state}, so systemd would not start {unit}")
    assert "systemctl reset-failed" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_a_oneshot_that_has_ended_is_run_again_and_no_reason() -> None:
    """Amazon Linux 2: without RemainAfterExit it is inactive as soon as it has done its work."""
    it = requiring("kubelet.service")

    assert it.tell().outcome is Outcome.UPGRADED


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
def test_the_examination_refuses_what_would_not_start(unit: str) -> None:
    it = requiring(unit)
    it.node.services.states[REQUIRED] = "failed"

    with pytest.raises(Refused, match=f"{unit} requires {REQUIRED}, which is failed") as refused:
        plan_for(it.node, "v1.33.13", limits=LIMITS)

    assert refused.value.finding.reason is Reason.KUBELET_WOULD_NOT_START


def test_a_runtime_that_stays_up_need_not_start() -> None:
    """Within an era of hashes nothing is rewritten."""
    it = requiring("containerd.service", "v1.31.14")
    it.node.services.states[REQUIRED] = "failed"

    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    assert it.tell().outcome is Outcome.UPGRADED


def conditional(unit: str, *conditions: str) -> Story:
    """A node whose kubelet's or runtime's unit has conditions."""
    it = story()
    it.node.disk[f"/etc/systemd/system/{unit}.d/10-site.conf"] = "\n".join(("[Unit]", *conditions, "")).encode()
    it.node.services.read_unit_files()
    return it


BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"
MAINTENANCE = "/etc/maintenance"


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
@pytest.mark.parametrize("line", [f"ConditionPathExists={BOOTSTRAP}", f"AssertPathExists=!{MAINTENANCE}"])
def test_a_condition_that_no_longer_holds_is_seen_before_the_kubelet_stops(unit: str, line: str) -> None:
    """systemd tests it only when it starts a unit, and skips the start without an error."""
    it = conditional(unit, line)
    it.node.disk[BOOTSTRAP] = b"users: []\n"
    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    def change() -> None:
        it.node.disk.pop(BOOTSTRAP)
        it.node.disk[MAINTENANCE] = b""

    it.node.calls.before(ARMED, change)
    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert report.message.startswith(f"{unit} has {line}, which does not hold, so systemd would not start {unit} again")
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_the_examination_refuses_a_condition_that_no_longer_holds() -> None:
    it = conditional("kubelet.service", f"ConditionPathExists={BOOTSTRAP}")

    with pytest.raises(Refused, match=f"kubelet.service has ConditionPathExists={BOOTSTRAP}, which does not hold"):
        plan_for(it.node, "v1.33.13", limits=LIMITS)


def test_a_run_is_not_turned_back_by_its_own_fence_nor_by_conditions_that_hold() -> None:
    """Azure's kubelets ask for their program, which is exchanged meanwhile."""
    it = conditional("kubelet.service", f"ConditionPathExists={PROGRAM}", "ConditionKernelVersion=>=4.0")
    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    assert it.tell().outcome is Outcome.UPGRADED


PROXY = "/etc/default/proxy"


@pytest.mark.parametrize("late", [False, True])
def test_an_environment_file_that_the_runtime_needs_to_start_and_that_is_gone(*, late: bool) -> None:
    """ "Failed to load environment files": the runtime would stay down, and hold the rollback."""
    it = story()
    it.node.disk[f"/etc/systemd/system/{RUNTIME_UNIT}.d/10-proxy.conf"] = (
        f"[Service]\nEnvironmentFile={PROXY}\n".encode()
    )
    it.node.disk[PROXY] = b"HTTP_PROXY=http://proxy\n"
    it.node.services.read_unit_files()
    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    if late:
        it.node.calls.before(ARMED, partial(it.node.disk.__delitem__, PROXY))
        assert it.tell().reason is Reason.RUNTIME_CONFIGURATION_DRIFT
        assert "services.stop kubelet.service" not in it.node.calls.effects
    else:
        it.node.disk.pop(PROXY)
        with pytest.raises(Refused, match=f"{PROXY}, which {RUNTIME_UNIT} needs to start, does not exist"):
            plan_for(it.node, "v1.33.13", limits=LIMITS)


def test_what_was_accepted_turns_no_run_back_and_what_is_gone_does() -> None:
    it = requiring("kubelet.service")
    it.node.services.states[REQUIRED] = "failed"
    accept = ("units_would_start_again",)

    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS, accept=accept)
    assert it.tell().outcome is Outcome.UPGRADED

    it.node.journal.data = b""
    it.plan = plan_for(it.node, "v1.30.14", run="run-2", limits=LIMITS, accept=accept)
    it.node.calls.before(ARMED, lambda: it.node.services.lose(REQUIRED))
    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert f"requires {REQUIRED}, which is not-found" in report.message
