"""What a daemon-reload, ours or somebody else's, may take away in mid-run: unit files, and cgroups of pods."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest, PodUid
from nodeupgrade.errors import StepFailed
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.executor import units
from nodeupgrade.node.failpoints.failpoints import FENCED, Failpoint, When, at
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.files.files import DiskUsage
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.node import DEAD_MAN_TIMER, EXECUTOR, LEASE_KEEPER, SHIELD
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.rescue import script
from tests.doubles.node import SimulatedNode, plan_for, pod_json
from tests.doubles.node.calls import Moment
from tests.doubles.node.containers.runtime_restart import TUNED_CONFIG, TUNING_DROP_IN
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27
from tests.doubles.node.services import FENCE_DROP_IN, FLAG
from tests.doubles.node.supervisor import supervise
from tests.scenario.node_run.test_node_run import LIMITS, Story, story

UNITS = (EXECUTOR, DEAD_MAN_TIMER, script.TIMER, LEASE_KEEPER, SHIELD)


@pytest.mark.parametrize("unit", [EXECUTOR, DEAD_MAN_TIMER, script.TIMER])
def test_without_what_brings_a_lost_executor_back_the_kubelet_is_not_stopped(unit: str) -> None:
    """A tool that removes unit files takes effect at the next daemon-reload, which may be ours."""
    it = story()
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.services.lose(unit))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert f"systemd has lost {unit}" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects
    assert it.node.services.active == set()


@pytest.mark.parametrize("step", [Step.STOP_KUBELET, Step.VERIFY])
def test_what_runs_is_stopped_at_the_end_although_its_file_is_gone(step: Step) -> None:
    it = story()
    it.node.calls.failpoints[at(step, When.ANNOUNCED)] = lambda: it.node.services.lose(*UNITS)

    assert it.tell().outcome is Outcome.UPGRADED

    assert it.node.services.active == set()
    assert not it.node.shield.running


OTHER = "fuse-server.service"


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
@pytest.mark.parametrize(
    ("stop", "why"),
    [
        (("control-group", ()), "has KillMode=control-group"),
        (("process", (OTHER,)), f"{OTHER} would stop together with"),
    ],
)
def test_what_a_stop_ends_since_a_reload_is_seen_before_the_kubelet_stops(
    unit: str, stop: tuple[str, tuple[str, ...]], why: str
) -> None:
    """Which units stop with a unit is written in their files, and what a drop-in no longer sets, in none."""
    it = story()
    it.node.services.active.add(OTHER)
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.services.stops.update({unit: stop}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_STOP_AFFECTS_OTHERS)
    assert why in report.message
    assert unit in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
def test_what_a_stop_ends_by_way_of_a_target_is_seen_as_well(unit: str) -> None:
    """Seen on a real node: a target that requires the kubelet stops with it, and with the target what is a part of it.

    Nobody would start that again.
    """
    it = story()
    it.node.services.active |= {OTHER, "kubernetes.target"}
    stops = {unit: ("process", ("kubernetes.target",)), "kubernetes.target": ("process", (OTHER, unit))}
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.services.stops.update(stops))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_STOP_AFFECTS_OTHERS)
    assert f"{OTHER} would stop together with {unit}" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


@pytest.mark.parametrize("unit", ["kubelet.service", "containerd.service"])
def test_a_unit_that_requires_one_whose_file_is_gone_is_seen_before_the_kubelet_stops(unit: str) -> None:
    """It runs on, and systemd says nothing; it does not start again: "Unit sandbox-image.service not found"."""
    it, gone = story(), "sandbox-image.service"
    it.node.services.requires = {unit: ("sysinit.target", gone)}
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.services.lose(gone))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert report.message.startswith(f"{unit} requires {gone}, which is not-found")
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_what_a_stop_ended_when_it_was_planned_or_does_not_run_is_no_reason() -> None:
    it = story()
    later = {"kubelet.service": ("none", ("down.service", "a.target")), "containerd.service": ("process", ())}
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.services.stops.update(later))

    assert it.tell().outcome is Outcome.UPGRADED


@pytest.mark.parametrize("kill_mode", ["control-group", "process"])
@pytest.mark.parametrize("accepted", [False, True])
def test_a_daemon_that_came_and_would_end_with_the_kubelet_is_seen_before_that_stops(
    kill_mode: str, accepted: bool
) -> None:
    """Such as one that serves a FUSE mount of a pod that came."""
    it = story()
    assert it.plan.kubelet_start is not None
    it.node.services.stops = {"kubelet.service": (kill_mode, ())}
    finding = Finding(reason=Reason.KUBELET_STOP_AFFECTS_OTHERS, detail="", check="nothing_else_stops", accepted=True)
    start = replace(it.plan.kubelet_start, spares_others=kill_mode == "process")
    it.plan = replace(it.plan, kubelet_start=start, cautions=(finding,) if accepted else ())
    came = {
        "/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": b"8\n9\n",
        "/proc/8/stat": b"8 (mount) S 77 8 8 0",
        "/proc/9/stat": b"9 (glusterfs) S 1 9 9 0",
    }
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.disk.update(came))

    report = it.tell()

    if kill_mode == "process" or accepted:
        assert report.outcome is Outcome.UPGRADED, report.message
        return
    assert (report.outcome, report.reason, report.restarted) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED, 0)
    assert report.message.startswith("glusterfs (9) came into the cgroup of kubelet.service")
    assert "services.stop kubelet.service" not in it.node.calls.effects


CPUSET = "/sys/fs/cgroup/cpuset/kubepods"


def with_cgroups(it: Story) -> Story:
    """The pods have cgroups in one hierarchy."""
    pods = {sandbox.pod.uid: f"pod{sandbox.pod.uid}" for sandbox in it.plan.baseline.sandboxes}
    it.node.disk.update({f"{CPUSET}/{place}/cgroup.procs": b"" for place in pods.values()})
    it.plan = replace(it.plan, cgroups=ExpectedCgroups(hierarchies={"cpuset": CPUSET}, places=pods))
    return it


def test_what_our_own_reload_takes_from_the_pods_is_seen_before_the_kubelet_stops() -> None:
    it = with_cgroups(story())
    gone = next(path for path in it.node.disk if path.startswith(f"{CPUSET}/pod"))
    it.node.calls.before("services.prepare_mask kubelet.service", partial(it.node.disk.__delitem__, gone))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.POD_CGROUP_WOULD_CHANGE)
    assert "the cgroups of 1 pods have lost controllers" in report.message
    assert "(cpuset)" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


LIST = "/sys/fs/cgroup/devices/kubepods.slice/cri-containerd-{}.scope/devices.list"


def test_a_device_that_our_own_reload_takes_from_a_container_is_seen_and_named() -> None:
    it = story()
    hit, whole, ended = (LIST.format(number) for number in range(3))
    it.node.disk.update(dict.fromkeys((hit, whole), b"c 195:0 rw\nc 1:3 rwm\n"))
    it.plan = replace(it.plan, cgroups=ExpectedCgroups(devices=dict.fromkeys((ended, hit, whole), ("c 195:0 rw",))))
    it.node.calls.before("services.prepare_mask kubelet.service", lambda: it.node.disk.update({hit: b"c 1:3 rwm\n"}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DEVICES_WOULD_BE_LOST)
    assert f"1 containers have lost devices since the run was planned, first: c 195:0 rw in {hit}" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


GPU_SCOPE = "cri-containerd-gpu.scope"
GROUP = f"/kubepods.slice/{GPU_SCOPE}"


def a_gpu_comes(it: Story) -> None:
    """A container starts whose GPU systemd does not know of."""
    it.node.services.scopes[GPU_SCOPE] = UnitDevices(policy="strict", allowed=("char-pts rwm",), group=GROUP)
    it.node.disk[f"/sys/fs/cgroup{GROUP}/cgroup.procs"] = b"77\n"
    it.node.disk["/proc/77/mountinfo"] = b"500 499 0:5 /nvidia0 /dev/nvidia0 rw - devtmpfs devtmpfs rw\n"


@pytest.mark.parametrize("late", [False, True])
def test_no_reload_takes_a_device_that_came_after_planning(*, late: bool) -> None:
    """On a busy node the shield takes seconds to start, and the reload comes after that."""
    it = story()
    if late:
        it.node.calls.before(f"services.start {SHIELD}", partial(a_gpu_comes, it))
    else:
        it.node.calls.failpoints[at(Step.CONFIRM_BINARIES, When.DONE)] = partial(a_gpu_comes, it)

    report = it.tell()

    undone = parse(it.node.journal.data)[0].first(Step.ARM_DEAD_MAN, Mark.UNDONE)
    assert undone is not None
    assert "still in effect" not in str(undone.error), "nothing was put into effect"

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DEVICES_WOULD_BE_LOST)
    assert f"{GPU_SCOPE} may use c 195:0 rw, which systemd does not know of" in report.message
    assert {"services.stop kubelet.service", "services.reload"}.isdisjoint(it.node.calls.effects)


@pytest.mark.parametrize("turned_back", [False, True])
def test_what_is_removed_at_the_end_waits_for_a_device_that_came_with_the_new_kubelet(*, turned_back: bool) -> None:
    it, scopes = story(), dict[str, UnitDevices]()
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = partial(a_gpu_comes, it)
    it.node.services.scopes = scopes

    report = supervise(it.node, it.plan, abort=lambda: turned_back and bool(scopes))

    assert report is not None
    assert report.outcome is (Outcome.ROLLED_BACK if turned_back else Outcome.UPGRADED)
    assert it.node.calls.effects.count("services.reload") == 1, "the one before the kubelet stopped"
    assert TUNED_CONFIG in it.node.disk, "the runtime may be restarted with it"
    scopes.clear()
    units.remove(it.node.ports.files, it.node.ports.services, "kubelet.service", [it.node.runtime.kind])
    assert TUNED_CONFIG not in it.node.disk


def test_new_arguments_wait_for_no_reload_that_takes_a_device() -> None:
    it = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,))
    it.node.calls.failpoints[FENCED] = partial(a_gpu_comes, it)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DEVICES_WOULD_BE_LOST)
    assert it.node.calls.effects.count("services.reload") == 1
    assert it.nothing_restarted()


@pytest.mark.parametrize("changed", ["nothing", "one ended", "a list", "one came"])
def test_without_a_kubelet_systemd_is_asked_for_devices_only_where_something_changed(changed: str) -> None:
    """With 250 containers its answer takes a second."""
    it = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,))
    known, looks = ("/dev/char/195:0 rw", "char-pts rwm"), list[int]()
    for number in range(2):
        group = f"/kubepods.slice/cri-containerd-{number}.scope"
        it.node.services.scopes[f"cri-containerd-{number}.scope"] = UnitDevices(
            policy="strict", allowed=known, group=group
        )
        it.node.disk[LIST.format(number)] = b"c 195:0 rw\n"
    it.node.disk["/proc/1/mountinfo"] = b"30 25 0:20 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n"

    def change() -> None:
        looks.append(it.node.calls.readings.count("services.devices"))
        if changed == "one ended":
            del it.node.services.scopes["cri-containerd-1.scope"], it.node.disk[LIST.format(1)]
        elif changed == "a list":
            it.node.disk[LIST.format(1)] = b"c 195:0 r\n"
        elif changed == "one came":
            it.node.services.scopes["run-7.scope"] = UnitDevices(policy="auto")

    it.node.calls.failpoints[FENCED] = change
    it.node.calls.failpoints[at(Step.SET_ARGUMENTS, When.DONE)] = lambda: looks.append(
        it.node.calls.readings.count("services.devices")
    )

    assert it.tell().outcome is Outcome.UPGRADED
    assert looks[1] - looks[0] == (2 if changed in {"a list", "one came"} else 0), "before the file, and the reload"


def test_a_device_that_is_added_to_a_known_container_without_a_kubelet_is_seen() -> None:
    it = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,))
    a_gpu_comes(it)
    mounts = it.node.disk.pop("/proc/77/mountinfo")
    it.node.calls.failpoints[FENCED] = lambda: it.node.disk.update({"/proc/77/mountinfo": mounts})

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DEVICES_WOULD_BE_LOST)
    assert it.node.calls.effects.count("services.reload") == 1


def test_where_new_arguments_would_cost_a_device_the_kubelet_is_not_stopped() -> None:
    it = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,))
    it.node.calls.failpoints[at(Step.ARM_DEAD_MAN, When.DONE)] = partial(a_gpu_comes, it)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DEVICES_WOULD_BE_LOST)
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_a_device_that_the_way_back_has_to_take_is_named() -> None:
    it, scopes = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,)), dict[str, UnitDevices]()
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = partial(a_gpu_comes, it)
    it.node.services.scopes = scopes

    report = supervise(it.node, it.plan, abort=lambda: bool(scopes))

    assert report is not None
    assert report.outcome is Outcome.ROLLED_BACK
    assert it.kubelet == "v1.26.15"
    undone = parse(it.node.journal.data)[0].first(Step.SET_ARGUMENTS, Mark.UNDONE)
    assert undone is not None
    assert f"{GPU_SCOPE} may use c 195:0 rw" in str(undone.error)


def test_cgroups_that_are_whole_or_of_a_pod_that_has_gone_are_no_reason() -> None:
    it = with_cgroups(story())
    it.plan = replace(
        it.plan, cgroups=replace(it.plan.cgroups, places={**it.plan.cgroups.places, PodUid("gone"): "podgone"})
    )

    assert it.tell().outcome is Outcome.UPGRADED


def turned_back_while_failing(effect: str, times: int) -> tuple[Story, list[bool]]:
    """Turn a run back while the new kubelet is watched; from then on, an effect fails so many times.

    Returns:
        The story, and whether the shield was up at each failure.
    """
    it, wishes, raised = story(), list[bool](), list[bool]()

    def fail(name: str, _number: int, moment: Moment) -> None:
        if wishes and name == effect and moment is Moment.BEFORE and len(raised) < times:
            raised.append(it.node.shield.raised())
            raise StepFailed("no space left on device")

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: wishes.append(True)
    it.node.calls.interrupt = fail
    report = supervise(it.node, it.plan, abort=lambda: bool(wishes))

    assert report is not None
    assert (report.outcome, report.reason, report.restarted) == (Outcome.ROLLED_BACK, Reason.ABORTED, 0)
    assert it.nothing_restarted()
    return it, raised


def test_a_systemd_that_cannot_read_its_files_keeps_no_node_out_of_service_that_is_in_order() -> None:
    """From version 252 on, it refuses to where less than 16 MiB are free in /run."""
    it, _ = turned_back_while_failing("services.reload", 1000)

    undone = parse(it.node.journal.data)[0].first(Step.ARM_DEAD_MAN, Mark.UNDONE)
    assert undone is not None
    assert "still in effect" in str(undone.error)


def test_the_way_back_has_the_space_that_systemd_needs_to_read_its_files_whatever_fills_run() -> None:
    """The old kubelet needs its flags again, and no pod can take the space between its release and the reload."""
    it, kept = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,)), list[int]()

    def refuse(name: str, _number: int, moment: Moment) -> None:
        released = kept and str(script.RESERVE) not in it.node.disk
        if kept and name == "services.reload" and moment is Moment.BEFORE and not (kept[0] and released):
            raise StepFailed("Refusing to reload, not enough space available on /run/systemd")

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: kept.append(
        len(it.node.disk.get(str(script.RESERVE), b"")) >= 16 * 1024**2
    )
    it.node.calls.interrupt = refuse
    report = supervise(it.node, it.plan, abort=lambda: bool(kept))

    assert report is not None
    assert (report.outcome, report.reason, report.restarted) == (Outcome.ROLLED_BACK, Reason.ABORTED, 0)
    assert it.nothing_restarted()


def test_a_node_whose_run_has_30_mib_free_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systemd wants 16 MiB of /run to read its files, on the way forward as well."""
    it = story("v1.26.15", "v1.27.16", arguments=(FLAG_REMOVED_IN_1_27,))
    usage = it.node.files.usage
    free = 30 * 1024**2

    def left() -> int:
        return free - len(it.node.disk.get(str(script.RESERVE), b""))

    def usage_now(path: PurePosixPath) -> DiskUsage:
        return replace(usage(path), free=left()) if str(path).startswith("/run") else usage(path)

    monkeypatch.setattr(it.node.files, "usage", usage_now)

    def refuse(name: str, _number: int, moment: Moment) -> None:
        if name == "services.reload" and moment is Moment.BEFORE and left() < 16 * 1024**2:
            raise StepFailed("Refusing to reload, not enough space available on /run/systemd")

    it.node.calls.interrupt = refuse
    report = supervise(it.node, it.plan)

    assert report is not None
    assert report.outcome is Outcome.UPGRADED, report.message


def test_both_reloads_of_the_way_back_have_the_space_that_is_kept() -> None:
    """Whatever fills /run takes what is free once systemd has read its files."""
    content = b"[Service]\nLimitNOFILE=1048576\n"
    drop_in = NewFile(
        path="/etc/systemd/system/kubelet.service.d/20-limits.conf",
        mode=0o644,
        digest=Digest(sha256(content).hexdigest()),
        source="a test",
        content=content,
    )
    node = SimulatedNode(
        version="v1.26.15",
        pods=[pod_json("web", "nginx")],
        arguments=(FLAG_REMOVED_IN_1_27,),
        disk={"/etc/systemd/system/kubelet.service.d/10-theirs.conf": b"[Service]\n"},
    )
    it = Story(node, plan_for(node, "v1.27.16", limits=LIMITS, files=(drop_in,)))
    full, free = list[bool](), [False]

    def watch(name: str, _number: int, moment: Moment) -> None:
        if name == f"files.remove {script.RESERVE}" and moment is Moment.BEFORE and str(script.RESERVE) in node.disk:
            free[0] = True
        if full and name == "services.reload" and moment is Moment.BEFORE:
            if not free[0]:
                raise StepFailed("Refusing to reload, not enough space available on /run/systemd")
            free[0] = False

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: full.append(True)
    it.node.calls.interrupt = watch
    it.node.ports = replace(it.node.ports, end=lambda: it.node.timeline.monotonic > 3600)
    report = supervise(it.node, it.plan, abort=lambda: bool(full))

    assert report is not None
    assert report.outcome is Outcome.ROLLED_BACK, report.message


@pytest.mark.parametrize("flags", [(), (FLAG_REMOVED_IN_1_27,)])
def test_space_is_kept_only_for_a_run_that_needs_it(flags: tuple[str, ...]) -> None:
    it, kept = story("v1.26.15", "v1.27.16", arguments=flags), list[bool]()
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: kept.append(str(script.RESERVE) in it.node.disk)

    assert it.tell().outcome is Outcome.UPGRADED
    assert kept == [bool(flags)]
    assert str(script.RESERVE) not in it.node.disk


def test_the_shield_stays_up_for_as_long_as_the_new_kubelet_cannot_be_stopped() -> None:
    """A kubelet that was turned back may want to end everything, and a run that has ended lowers the shield."""
    _, raised = turned_back_while_failing("services.mask kubelet.service", 100)

    assert raised == [True] * 100


@pytest.mark.parametrize("path", [TUNING_DROP_IN, FENCE_DROP_IN])
@pytest.mark.parametrize(
    "point", [at(Step.ARM_DEAD_MAN, When.DONE), at(Step.STOP_KUBELET, When.DONE), at(Step.REWRITE_HASHES, When.DONE)]
)
def test_what_vanishes_from_run_is_not_loaded_again_at_the_expense_of_a_device(path: str, point: Failpoint) -> None:
    """A run goes on without it, or back; a device that is taken from a container cannot be given back."""
    it = story()

    def vanish() -> None:
        it.node.disk.pop(path)
        it.node.disk.pop(FLAG, None)
        if path == FENCE_DROP_IN:
            it.node.services.read_unit_files()  # somebody else's reload, before the device came
        a_gpu_comes(it)

    it.node.calls.failpoints[point] = vanish

    report = it.tell()

    assert report.outcome in {Outcome.UPGRADED, Outcome.ROLLED_BACK}
    assert it.nothing_restarted()
    assert GPU_SCOPE not in it.node.services.loaded_beside


def test_what_the_way_back_has_to_load_again_at_the_expense_of_a_device_is_named() -> None:
    """A runtime that serves the new kubelet's hashes has to be restarted for the old one."""
    it, gone = story(), list[bool]()

    def vanish() -> None:
        it.node.disk.pop(TUNING_DROP_IN)
        a_gpu_comes(it)
        gone.append(True)

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = vanish

    report = supervise(it.node, it.plan, abort=lambda: bool(gone))

    assert report is not None
    assert report.outcome is Outcome.ROLLED_BACK
    assert it.kubelet == "v1.30.14"
    undone = parse(it.node.journal.data)[0].first(Step.REWRITE_HASHES, Mark.UNDONE)
    assert undone is not None
    assert f"{GPU_SCOPE} may use c 195:0 rw" in str(undone.error)
