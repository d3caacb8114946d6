"""Pods come and go until the kubelet is stopped; the run takes that in."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType

import pytest

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import RejectedPod, SocketMountPolicy
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.cluster.owner_changes import ContainerSpec, Evidence
from nodeupgrade.cluster.pods import CONFIG_HASH, CONFIG_MIRROR, Pod, parse_pod
from nodeupgrade.errors import Refused
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.examination.arrivals import plan_arrivals
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.host.files.mounts import MOUNTS
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.run.attempts import summed_up
from nodeupgrade.node.run.plan_amendment import LARGEST_ARRIVALS
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory
from nodeupgrade.node.runtimes.runtime import BeforeImage
from nodeupgrade.node.task_status.run_status import run_status
from tests.builders.admitted import checkpoint, userns
from tests.doubles.node import SimulatedNode, agent_for, examination_of, manifest, pod_json
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.planning import DEVICE
from tests.scenario.node_run.test_node_run import LIMITS, Story

LATE = parse_pod(pod_json("late", "guest"))
STOP, RESTART = "services.stop kubelet.service", "services.restart containerd.service"


def story(
    old: str = "v1.30.14",
    jobs: tuple[str, ...] = ("",),
    *,
    new: str = "v1.33.13",
    more: tuple[Pod, ...] = (),
    disk: Mapping[str, bytes] = MappingProxyType({}),
    also_rejects: tuple[RejectedPod, ...] = (),
    arguments: tuple[str, ...] = (),
) -> Story:
    pods = [pod_json("web", "nginx", "log", sidecars=("mesh",))]
    pods += [pod_json(name or "job", f"work-{name}".strip("-"), restart_policy="Never") for name in jobs]
    node = SimulatedNode(version=old, pods=[*pods, *(dict(pod.raw) for pod in more)], arguments=arguments)
    node.disk.update(disk)
    examination = examination_of(node, new, limits=LIMITS, also_rejects=also_rejects)
    assert examination.plan is not None
    node.shield.plan = examination.plan
    node.ports = replace(node.ports, planned_arrivals=agent_for(node, examination))
    return Story(node, examination.plan)


def comes(it: Story, pod: Pod = LATE) -> None:
    """Have a pod come right before the kubelet is stopped."""
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.kubelet.pods.append(pod))
    it.node.calls.durations["services.mask kubelet.service"] = 2.0


def running(it: Story) -> dict[str, ContainerId]:
    return {c.name: c.id for c in it.node.inventory().running()}


def test_what_came_is_rewritten_and_kept_like_everything_else() -> None:
    it = story()
    comes(it)
    seen: dict[str, ContainerId] = {}
    it.node.calls.before(STOP, lambda: seen.update(running(it)))

    report = it.tell()

    assert (report.outcome, report.restarted, report.baseline, report.rewritten) == (Outcome.UPGRADED, 0, 5, 5)
    assert "guest" in seen
    assert running(it) == seen
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])


def test_the_amendment_is_in_the_journal_before_anything_is_written() -> None:
    it = story()
    comes(it)
    announced: list[bool] = []

    def look() -> None:
        payload = parse(it.node.journal.data)[0].payload(Step.CONFIRM_INVENTORY)
        announced.append(bool(payload) and "guest" in str(payload))

    it.node.calls.before("runtime.rewrite", look)

    it.tell()

    assert announced == [True]


def test_while_no_kubelet_runs_only_pods_that_changed_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call for each container and sandbox of a full node takes a tenth of a second, three times."""
    it, asked = story(), list[tuple[bool, frozenset[PodUid]]]()
    comes(it)
    it.node.calls.before(RESTART, lambda: it.node.runtime.end(it.container("work"), 0))
    listed = it.node.runtime.inventory

    def inventory(*, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        if not it.node.services.status("kubelet.service").main_pid:
            asked.append((full, frozenset(of)))
        return listed(full=full, of=of, addresses=addresses)

    monkeypatch.setattr(it.node.runtime, "inventory", inventory)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    job = next(c.pod.uid for c in it.plan.containers if c.name == "work")
    assert {pods for _, pods in asked} == {frozenset(), frozenset({LATE.ref.uid}), frozenset({job})}
    assert not any(full for full, _ in asked)


def test_a_job_that_ends_while_another_is_asked_about_is_asked_about_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    it = story(jobs=("job", "late-job"))
    it.node.calls.before(RESTART, lambda: it.node.runtime.end(it.container("work-job"), 0))
    listed = it.node.runtime.inventory

    def inventory(*, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        if of:
            it.node.runtime.end(it.container("work-late-job"), 0)
        return listed(full=full, of=of, addresses=addresses)

    monkeypatch.setattr(it.node.runtime, "inventory", inventory)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)


@pytest.mark.parametrize("again", [False, True], ids=["ended", "restarted"])
def test_what_ended_leaves_the_plan_and_is_named(again: bool) -> None:
    """The kubelet may have started it again: what it stores then is proved already, so that no agent is needed."""
    it = story()
    it.node.ports = replace(it.node.ports, planned_arrivals=lambda _asked: None)
    moment = "services.mask kubelet.service" if again else STOP
    it.node.calls.before(moment, lambda: it.node.runtime.end(it.container("nginx"), 137))
    it.node.calls.durations |= {moment: 2.0} if again else {}

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ())
    assert (report.baseline, report.ended_before) == (3 + again, ("default/web/nginx",))
    assert it.node.kubelet.replaced == []


@pytest.mark.parametrize("again", [False, True], ids=["ended", "restarted"])
def test_what_was_restarted_before_the_stop_is_watched_and_not_excused_by_that(again: bool) -> None:
    """What did not run then is not watched: in a crash loop it may end again, and nobody else says so."""
    it = story()
    moment = "services.mask kubelet.service" if again else STOP
    it.node.calls.before(moment, lambda: it.node.runtime.end(it.container("nginx"), 1))
    it.node.calls.durations |= {moment: 2.0} if again else {}
    it.tell()

    status = run_status(it.plan.run_id, it.plan, parse(it.node.journal.data)[0])

    assert (status.phase, status.containers.restarted) == (TaskPhase.SUCCEEDED, 0)
    assert status.containers.ended_list == (() if again else ("default/web/nginx",))
    times = {step.name: step.started_at for step in status.steps}
    stopped, confirmed = times[Step.STOP_KUBELET], times[Step.CONFIRM_INVENTORY]
    assert stopped is not None
    assert confirmed is not None
    assert stopped < confirmed, "by that, the control plane does not take it for a restart"


def test_a_job_that_is_over_before_the_stop_may_lose_its_sandbox() -> None:
    it = story()
    it.node.calls.before(
        "services.start nodeupgrade-dead-man.timer", lambda: it.node.runtime.end(it.container("work"), 0)
    )

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)


def is_restarted(it: Story) -> None:
    """Have the old kubelet restart a container right before it is stopped."""
    moment = "services.mask kubelet.service"
    it.node.calls.before(moment, lambda: it.node.runtime.end(it.container("nginx"), 137))
    it.node.calls.durations[moment] = 2.0


def gets_a_monitor_of_its_own(it: Story, name: str) -> None:
    """Have a container be started while the monitor of its pod does not answer in time."""
    it.node.calls.before(STOP, lambda: it.node.runtime.split_monitors(running(it)[name]))


CAME: Mapping[str, Callable[[Story], None]] = {"guest": comes, "nginx": is_restarted}


@pytest.mark.parametrize(("name", "happens"), CAME.items(), ids=["came", "restarted"])
def test_what_came_with_a_monitor_of_its_own_turns_the_run_back(name: str, happens: Callable[[Story], None]) -> None:
    """A restart of the runtime would kill its pod, with containers that were there before."""
    it = story()
    happens(it)
    gets_a_monitor_of_its_own(it, name)

    it.tell()

    report = summed_up([parse(it.node.journal.data)[0]])
    assert report is not None
    assert untouched(it, report)
    assert f"/{name} came since the run was planned and runs under another monitor than its pod" in report.message
    assert "services.restart containerd.service" not in it.node.calls.effects
    assert all(s.ready for s in it.node.inventory().sandboxes)


@pytest.mark.parametrize(("name", "happens"), CAME.items(), ids=["came", "restarted"])
@pytest.mark.parametrize("restarts", [True, False], ids=["each has its own", "the runtime runs on"])
def test_a_monitor_of_its_own_is_let_pass_where_it_does_no_harm(
    name: str, happens: Callable[[Story], None], restarts: bool
) -> None:
    it = story() if restarts else story("v1.31.14")
    it.node.runtime.kind = replace(it.node.runtime.kind, one_monitor_per_pod=not restarts)
    happens(it)
    gets_a_monitor_of_its_own(it, name)

    report = it.tell()

    assert (report.outcome, report.restarted, bool(report.rewritten)) == (Outcome.UPGRADED, 0, restarts)


def is_paused(it: Story, *, looks: int) -> None:
    """Have a container be paused after the examination, as by a backup, for so many looks at the hazards."""
    paused, ask = it.node.runtime.troubles.paused, it.node.runtime.restart_hazards
    paused.add(it.container("nginx"))
    left = iter(range(looks))

    def hazards(seen: RuntimeAtWork) -> RestartHazards:
        if next(left, None) is None:
            paused.clear()
        return ask(seen)

    it.node.runtime.restart_hazards = hazards  # type: ignore[method-assign]


def test_a_container_that_is_paused_since_the_examination_turns_the_run_back_before_the_stop() -> None:
    """The CRI shows it running, and a restarted runtime would lose it."""
    it = story()
    is_paused(it, looks=10)

    report = it.tell()

    assert untouched(it, report)
    assert STOP not in it.node.calls.effects
    assert report.message.startswith("default/web/nginx: it is paused")


def test_what_endangers_a_container_for_a_moment_turns_no_run_back() -> None:
    it = story()
    is_paused(it, looks=1)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)


def test_a_paused_container_is_let_pass_where_the_runtime_runs_on() -> None:
    it = story("v1.31.14")
    is_paused(it, looks=10)

    report = it.tell()

    assert (report.outcome, report.restarted, report.rewritten) == (Outcome.UPGRADED, 0, 0)


def test_what_a_restart_does_to_the_pod_of_the_agent_does_not_matter() -> None:
    it = story()
    agent = {it.container("nginx"), it.container("log"), it.container("mesh")}
    it.plan = replace(
        it.plan, containers=tuple(replace(c, expendable=c.id in agent) for c in it.plan.containers), shield=None
    )
    is_paused(it, looks=10)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)


def with_room_for(pods: int, *more: Pod) -> Story:
    """A node with three pods, one of them static, whose next kubelet admits so many; the API server shows more."""
    node = SimulatedNode(
        version="v1.30.14",
        pods=[pod_json("web", "nginx"), pod_json("job", "work", restart_policy="Never")],
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=(f"--max-pods={pods}",),
    )
    examination = examination_of(node, "v1.33.13", limits=LIMITS)
    assert examination.plan is not None
    node.shield.plan = examination.plan
    [etcd] = (pod for pod in examination.facts.pods if pod.static)
    mirror = deepcopy(dict(etcd.raw))
    mirror["metadata"] |= {"uid": "of the mirror", "annotations": {CONFIG_HASH: etcd.ref.uid, CONFIG_MIRROR: "1"}}

    def answer(asked: Arrivals) -> PlannedArrivals:
        manifests = read_manifests(node.files, examination.layout)
        return plan_arrivals(examination, [*node.kubelet.pods, parse_pod(mirror), *more], manifests, asked)

    node.ports = replace(node.ports, planned_arrivals=answer)
    return Story(node, examination.plan)


def is_edited(it: Story) -> None:
    """Have a static pod be replaced; the API server still shows the old one."""
    path = f"{MANIFESTS}/etcd.yaml"
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.disk.update({path: manifest("etcd", "new")}))
    it.node.calls.durations["services.mask kubelet.service"] = 2.0


def takes_the_place_of_another(it: Story) -> None:
    """Have a pod come instead of one that has finished."""
    it.node.calls.before("services.mask kubelet.service", lambda: finishes(it, "job"))
    comes(it)


def finishes(it: Story, name: str) -> None:
    it.node.runtime.end(it.container("work"), 0)
    pods = it.node.kubelet.pods
    pods[:] = [replace(pod, finished=pod.finished or pod.ref.name == name) for pod in pods]


@pytest.mark.parametrize(
    ("pods", "happens", "outcome"),
    [
        (3, comes, Outcome.ROLLED_BACK),
        (4, comes, Outcome.UPGRADED),
        (3, is_edited, Outcome.UPGRADED),
        (3, takes_the_place_of_another, Outcome.UPGRADED),
    ],
)
def test_what_came_has_to_fit_beside_everything_else(
    pods: int, happens: Callable[[Story], None], outcome: Outcome
) -> None:
    """The old kubelet admits it by the configuration and the capacity of its own start."""
    it = with_room_for(pods)
    happens(it)

    report = it.tell()

    assert report.outcome is outcome, report.message
    if outcome is Outcome.ROLLED_BACK:
        assert untouched(it, report)
        assert "4 pods are on the node and 3 would be admitted" in report.message


def test_a_pod_that_only_says_it_is_a_mirror_pod_is_none_of_them() -> None:
    """It claims the UID of what came, and has another image."""
    claims = pod_json("zzz", "guest")
    claims["metadata"] |= {"uid": "of nobody", "annotations": {CONFIG_HASH: LATE.ref.uid, CONFIG_MIRROR: "1"}}
    claims["spec"]["containers"] = [{**claims["spec"]["containers"][0], "image": "other"}]
    it = with_room_for(4, parse_pod(claims))
    comes(it)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


def starting(*, over: bool, **container: object) -> Pod:
    """A pod with one container, as the API server shows it while the kubelet starts it, or once that is over."""
    pod = pod_json("late", "guest")
    pod["spec"]["containers"][0] |= container
    state: dict[str, object] = {"running": {}} if over or "startupProbe" in container else {"waiting": {}}
    pod["status"] = {"containerStatuses": [{"name": "guest", "started": over, "ready": over, "state": state}]}
    return parse_pod(pod)


PROBED = {"startupProbe": {"exec": {"command": ["up"]}, "periodSeconds": 1, "failureThreshold": 2}}
HOOKED = {"lifecycle": {"postStart": {"exec": {"command": ["join"]}}}}


@pytest.mark.parametrize("over", [False, True], ids=["being started", "started"])
@pytest.mark.parametrize(
    ("container", "why"),
    [(PROBED, "its startup probe has not succeeded yet"), (HOOKED, "its postStart hook has not finished")],
    ids=["probed", "hooked"],
)
def test_what_came_is_taken_in_once_its_start_is_over(container: dict[str, object], why: str, over: bool) -> None:
    it = story()
    comes(it, starting(over=over, **container))

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is over, report.message
    assert over or (untouched(it, report) and why in report.message)


CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def recorded_devices(pod: Pod) -> bytes:
    """Return the kubelet's record of the devices that a pod holds."""
    entry = {"PodUID": pod.ref.uid, "ResourceName": DEVICE, "AllocResp": ""}
    entries = [{**entry, "ContainerName": c.name, "DeviceIDs": {"-1": [c.name]}} for c in pod.containers]
    content = {"RegisteredDevices": {DEVICE: ["guest", "train"]}, "PodDeviceEntries": entries}
    return checkpoint(content)


ALLOCATED = recorded_devices(LATE)
HOLDING = {"resources": {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}}


PINNED = {"resources": {kind: {"cpu": "1", "memory": "1Gi"} for kind in ("limits", "requests")}}
CPUS, USERS = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/pods/uid-late/userns"


def static_cpus(**entries: object) -> bytes:
    return json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "entries": entries}).encode()


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize(
    ("guest", "before", "then", "arguments"),
    [
        (HOLDING, {CHECKPOINT: checkpoint({"RegisteredDevices": {DEVICE: ["0"]}})}, {CHECKPOINT: ALLOCATED}, ()),
        (
            PINNED,
            {CPUS: static_cpus()},
            {CPUS: static_cpus(**{"uid-late": {"guest": "1"}})},
            ("--cpu-manager-policy=static",),
        ),
        ({"hostUsers": False}, {}, {USERS: userns(65536)}, ()),
    ],
    ids=["devices", "CPUs", "user namespace"],
)
def test_what_came_is_judged_by_what_the_kubelet_has_recorded_of_it(
    *,
    guest: dict[str, object],
    before: Mapping[str, bytes],
    then: Mapping[str, bytes],
    arguments: tuple[str, ...],
    recorded: bool,
) -> None:
    """It records what a container has before it starts it, and the examination was before that."""
    it = story("v1.33.13", new="v1.34.0", disk=before, arguments=arguments)
    of_pod = {key: guest[key] for key in guest if key == "hostUsers"}
    pod = starting(over=True, **{key: guest[key] for key in guest if key not in of_pod})
    comes(it, parse_pod({**pod.raw, "spec": {**pod.spec, **of_pod}}))
    it.node.calls.before(STOP, lambda: it.node.disk.update(then if recorded else {}))

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is recorded, report.message
    assert recorded or untouched(it, report)


def again(it: Story, shown: str) -> Callable[[], None]:
    """Return what has the API server show that a guest was restarted."""
    before = it.container("guest")
    states: dict[str, dict[str, object]] = {
        "as before": {"containerID": f"containerd://{before}", "started": True, "state": {"running": {}}},
        "as ended": {"containerID": f"containerd://{before}", "started": False, "state": {"terminated": {}}},
        "as being started": {"started": False, "state": {"running": {}}, "restartCount": 1},
        "as started": {"started": True, "state": {"running": {}}, "restartCount": 1},
    }

    def show() -> None:
        pods = it.node.kubelet.pods
        status = {"containerStatuses": [{"name": "guest", **states[shown]}]}
        pods[:] = [parse_pod({**pod.raw, "status": status}) if pod.ref == LATE.ref else pod for pod in pods]

    return show


@pytest.mark.parametrize(
    ("container", "shown", "why"),
    [
        (PROBED, "as before", "its startup probe has not succeeded yet"),
        (PROBED, "as ended", "its startup probe has not succeeded yet"),
        (PROBED, "as being started", "its startup probe has not succeeded yet"),
        (PROBED, "as started", ""),
        (HOOKED, "as before", "its postStart hook has not finished"),
        (HOOKED, "as ended", "its postStart hook has not finished"),
        (HOOKED, "as started", ""),
        (HOLDING, "as before", "was restarted before, so kubelet v1.33.13 considers it not running"),
        (HOLDING, "as started", "was restarted before, so kubelet v1.33.13 considers it not running"),
        ({}, "as before", ""),
    ],
)
def test_what_was_restarted_is_asked_about_where_its_start_says_more_than_its_hash(
    container: dict[str, object], shown: str, why: str
) -> None:
    """The kubelet may be stopped before it reports the restart."""
    it = story(more=(starting(over=True, **container),), disk={CHECKPOINT: ALLOCATED})
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(it.container("guest"), 1))
    it.node.calls.durations["services.mask kubelet.service"] = 2.0
    it.node.calls.before(STOP, again(it, shown))

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is (why == ""), report.message
    assert why == "" or (untouched(it, report) and why in report.message)


@pytest.mark.parametrize("rejected", [(), (RejectedPod.RESTARTED,), (RejectedPod.RESTARTED_AND_NOT_READY,)])
def test_what_was_restarted_is_asked_about_where_a_vendors_kubelet_rejects_some_pods(
    rejected: tuple[RejectedPod, ...],
) -> None:
    it = story(also_rejects=rejected)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}  # as the instance before was
    it.node.kubelet.pods[:] = [
        parse_pod({**pod.raw, "status": {**pod.status, **ready}}) for pod in it.node.kubelet.pods
    ]
    is_restarted(it)

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is (not rejected), report.message
    assert not rejected or (untouched(it, report) and "kubelet.alsoRejects says" in report.message)


def test_what_an_examination_refuses_of_a_pod_turns_the_run_back_if_it_came() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    it = story()
    comes(it, starting(over=True, restartPolicyRules=rules))

    report = it.tell()

    assert untouched(it, report)
    assert "restart all of its containers" in report.message


BEING_STARTED = {"waiting": {"reason": "ContainerCreating"}}


def with_devices(*names: str, **states: object) -> Pod:
    """A pod whose containers hold a device each, in these states."""
    pod = pod_json("late", *names)
    for container in pod["spec"]["containers"]:
        container["resources"] = {"limits": {DEVICE: "1"}}
    pod["status"] = {"containerStatuses": [{"name": name, "state": states.get(name, {})} for name in names]}
    return parse_pod(pod)


@pytest.mark.parametrize("over", [False, True], ids=["being started", "started"])
def test_a_pod_with_devices_that_came_is_taken_in_once_all_that_hold_some_run(over: bool) -> None:
    """The runtime says so: without a kubelet, the API server goes on showing what was."""
    late = with_devices("guest", "train", train=BEING_STARTED)
    it = story()
    it.node.disk[CHECKPOINT] = recorded_devices(late)
    comes(it, late)
    if not over:
        it.node.calls.before(STOP, lambda: it.node.runtime.end(running(it)["train"], 0))

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is over, report.message
    assert over or (untouched(it, report) and "not all containers that hold them run (train)" in report.message)


@pytest.mark.parametrize("over", [False, True])
def test_a_pod_with_devices_of_which_one_container_is_over_is_left_to_the_kubelet_that_runs(over: bool) -> None:
    """The next one would reject the pod, and kill the container that runs, whatever the API server shows yet."""
    shown = with_devices("guest", "train")
    node = SimulatedNode(version="v1.35.4", pods=[dict(shown.raw)])
    node.disk[CHECKPOINT] = recorded_devices(shown)
    if over:
        [train] = [c.id for c in node.inventory().running() if c.name == "train"]
        node.runtime.end(train, 0)

    with pytest.raises(Refused, match=r"hold them run \(train\)") if over else nullcontext():
        examination_of(node, "v1.36.0", limits=LIMITS)


@pytest.mark.parametrize(
    ("names", "policy", "over"),
    [(("train", "guest"), "Always", False), (("train",), "Always", False), (("train",), "Never", True)],
    ids=["beside another", "alone, and started again", "alone, and over"],
)
def test_a_container_with_devices_that_ends_turns_the_run_back_unless_its_pod_is_over(
    names: tuple[str, ...], policy: str, *, over: bool
) -> None:
    """Nothing came of which the agent could be asked; the next kubelet would reject the pod, and stop its sandbox."""
    pod = with_devices(*names)
    pod = parse_pod({**pod.raw, "spec": {**pod.spec, "restartPolicy": policy}})
    it = story("v1.35.4", new="v1.36.0", more=(pod,), disk={CHECKPOINT: recorded_devices(pod)})
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(running(it)["train"], 0))

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is over, report.message
    assert over or (untouched(it, report) and "default/late/train, which has devices, ended" in report.message)


def that_is_deleted(when: str, *, known: float = 0.0, ends: bool = True) -> Story:
    """A pod with devices whose owner deletes it, so that one of its containers ends, and soon the pod."""
    pod = with_devices("train", "guest")
    pod = parse_pod({**pod.raw, "spec": {**pod.spec, "restartPolicy": "Never"}})
    it = story("v1.35.4", new="v1.36.0", more=(pod,), disk={CHECKPOINT: recorded_devices(pod)})
    evidence = [Evidence()]
    it.node.ports = replace(it.node.ports, owner_changes=lambda: evidence[0])

    def is_deleted() -> None:
        it.node.runtime.end(running(it)["train"], 143)
        it.node.timeline.after(known, lambda: evidence.insert(0, Evidence(deleted=(PodUid(pod.ref.uid),))))
        if ends:
            it.node.kubelet.pods = [each for each in it.node.kubelet.pods if each.ref != pod.ref]

    it.node.calls.before(when, is_deleted)
    return it


BEFORE_THE_STOP, AT_THE_STOP = "services.start nodeupgrade-dead-man.timer", "services.mask kubelet.service"


@pytest.mark.parametrize(("when", "known"), [(BEFORE_THE_STOP, 0.0), (AT_THE_STOP, 0.0), (AT_THE_STOP, 0.3)])
def test_a_pod_with_devices_that_its_owner_deletes_before_the_stop_costs_no_attempt(when: str, known: float) -> None:
    """It ends as long as a kubelet runs; once none does, to go back would only start another."""
    it = that_is_deleted(when, known=known)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


def test_a_pod_with_devices_that_takes_its_time_to_end_is_left_to_the_kubelet_that_runs() -> None:
    """Any kubelet that starts would reject it, and end it at once."""
    it = that_is_deleted(BEFORE_THE_STOP, ends=False)

    report = it.tell()

    assert untouched(it, report)
    assert STOP not in it.node.calls.effects


def test_a_container_with_devices_that_is_started_again_before_the_stop_turns_nothing_back() -> None:
    pod = with_devices("train", "guest")
    it = story("v1.35.4", new="v1.36.0", more=(pod,), disk={CHECKPOINT: recorded_devices(pod)})
    it.node.calls.before(BEFORE_THE_STOP, lambda: it.node.runtime.end(running(it)["train"], 1))

    report = it.tell()

    assert "which has devices, ended" not in report.message


def test_an_owner_who_changes_something_else_of_a_pod_with_devices_is_no_excuse() -> None:
    pod = with_devices("train", "guest")
    it = story("v1.35.4", new="v1.36.0", more=(pod,), disk={CHECKPOINT: recorded_devices(pod)})
    changed = ContainerSpec(pod=PodUid(pod.ref.uid), name="train", image="other", resources="")
    it.node.ports = replace(it.node.ports, owner_changes=lambda: Evidence(specs=(changed,)))
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(running(it)["train"], 0))

    assert untouched(it, it.tell())


def test_what_no_device_plugin_provides_is_no_device() -> None:
    """Extended resources that somebody writes into the Node's status, such as Koordinator's, are not allocated."""
    pod = pod_json("late", "guest", "train")
    for container in pod["spec"]["containers"]:
        container["resources"] = {"limits": {"kubernetes.io/batch-cpu": "1000"}}
    it = story("v1.35.4", new="v1.36.0", more=(parse_pod(pod),))
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(running(it)["train"], 0))

    report = it.tell()

    assert report.outcome is Outcome.UPGRADED, report.message


def test_a_pod_with_devices_whose_image_is_being_pulled_is_waited_for() -> None:
    """Any kubelet that starts would reject it, and stop its sandbox, which is watched."""
    shown = with_devices("guest", guest=BEING_STARTED)
    node = SimulatedNode(version="v1.35.4", pods=[pod_json("web", "nginx"), dict(shown.raw)])
    node.disk[CHECKPOINT] = recorded_devices(shown)
    [guest] = [c.id for c in node.inventory().running() if c.name == "guest"]
    del node.runtime.containers[guest]

    with pytest.raises(Refused, match=r"hold them run \(guest\)") as refused:
        examination_of(node, "v1.36.0", limits=LIMITS)

    assert refused.value.finding.reason is Reason.POD_IN_TRANSITION


def test_an_attempt_that_has_rewritten_hashes_leaves_no_time_unaccounted_for() -> None:
    """The old kubelet runs on, but the runtime was restarted twice."""
    it = story()
    [sandbox, *_] = it.plan.baseline.sandboxes

    def begins() -> None:
        it.node.runtime.create_container(sandbox, "debug", HashValue("1"))

    it.node.calls.before(RESTART, begins)

    report = it.tell()

    assert report.reason is Reason.INVENTORY_CHANGED
    assert any(effect.startswith("runtime.rewrite") for effect in it.node.calls.effects)
    assert run_status("run-1", it.plan, it.node.journal.load()).between_attempts == ()


@pytest.mark.parametrize("held", [True, False])
def test_an_init_container_that_a_kubelet_would_run_again_is_looked_for_among_all_of_its_pod(held: bool) -> None:
    """Kubelets before 1.21 run it again if the runtime does not hold it any more."""
    pod = pod_json("web", "nginx", "log")
    pod["spec"]["initContainers"] = [{"name": "setup", "image": "registry.example/setup:1"}]
    node = SimulatedNode(version="v1.20.15", pods=[pod])
    [sandbox] = node.inventory().sandboxes
    setup = node.runtime.create_container(sandbox, "setup", HashValue("1"))
    node.runtime.end(setup.id, 0)
    examination = examination_of(node, "v1.19.16", limits=LIMITS)
    assert examination.plan is not None
    node.shield.plan = examination.plan
    node.ports = replace(node.ports, planned_arrivals=agent_for(node, examination))
    it = Story(node, examination.plan)
    pod["spec"]["containers"][0] |= {"image": "registry.example/nginx:2"}

    def changes() -> None:
        node.kubelet.pods = [parse_pod(pod)]
        if not held:
            del node.runtime.containers[setup.id]

    node.calls.before("services.mask kubelet.service", changes)
    node.calls.durations["services.mask kubelet.service"] = 2.0

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is held, report.message
    assert held or "the runtime no longer holds its init container setup" in report.message


def with_socket_mounts(policy: SocketMountPolicy) -> Story:
    it = story()
    examination = examination_of(it.node, "v1.33.13", limits=LIMITS)
    spec = examination.facts.spec
    spec = replace(spec, verify=replace(spec.verify, socket_mounts=policy))
    examination = replace(examination, facts=replace(examination.facts, spec=spec))
    it.node.ports = replace(it.node.ports, planned_arrivals=agent_for(it.node, examination))
    return it


def test_what_came_and_ends_with_the_runtime_that_it_is_connected_to_ends_nothing_else() -> None:
    it = story()
    comes(it)
    followers = it.node.runtime.troubles.followers
    it.node.calls.before(STOP, lambda: followers.update({running(it)["guest"]: 1}))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message
    assert report.with_runtime == ("default/late/guest",)


@pytest.mark.parametrize("policy", SocketMountPolicy)
def test_what_came_with_a_socket_of_the_runtime_is_taken_in_where_it_may_have_one(policy: SocketMountPolicy) -> None:
    it = with_socket_mounts(policy)
    comes(it)

    def mounts() -> None:
        it.node.runtime.troubles.mounters = {running(it)["guest"]: ("/run/containerd/containerd.sock",)}

    it.node.calls.before(STOP, mounts)

    report = it.tell()

    assert (report.outcome is Outcome.UPGRADED) is (policy is SocketMountPolicy.WARN), report.message
    assert policy is SocketMountPolicy.WARN or untouched(it, report)


def test_what_came_with_a_volume_that_the_new_kubelet_leaves_alone_turns_the_run_back() -> None:
    """Its plugin is gone from 1.31 on."""
    it, uid = story(), "0d6b3c7e-4f2f-4d0e-9a64-6a3cf6a5a001"
    point = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~rbd/data"
    comes(it, parse_pod(pod_json("late", "guest", uid=uid)))
    mounted = f"25 1 0:25 / {point} rw shared:1 - ext4 /dev/rbd0 rw\n".encode()
    it.node.calls.before(STOP, lambda: it.node.disk.update({str(MOUNTS): mounted}))

    report = it.tell()

    assert untouched(it, report)
    assert "its volume data is mounted by kubernetes.io/rbd" in report.message


@pytest.mark.parametrize("answers", [True, False], ids=["in time", "too late"])
@pytest.mark.parametrize(("name", "happens"), CAME.items(), ids=["came", "restarted"])
def test_what_came_is_taken_in_once_its_process_is_known(
    name: str, happens: Callable[[Story], None], answers: bool
) -> None:
    """A shim that does not answer a listing in time does not answer a starting runtime either, which kills it."""
    it = story()
    happens(it)

    def hides() -> None:
        stored = it.node.runtime.containers[running(it)[name]]
        process, stored.instance = stored.instance.process, replace(stored.instance, process=None)
        shown = replace(stored.instance, process=process)
        if answers:
            it.node.timeline.after(0.3, lambda: setattr(stored, "instance", shown))

    it.node.calls.before(STOP, hides)

    it.tell()

    report = summed_up([parse(it.node.journal.data)[0]])
    assert report is not None
    assert (report.outcome is Outcome.UPGRADED) is answers, report.message
    assert answers or (untouched(it, report) and "its process is not known" in report.message)


def lies(it: Story, **changes: object) -> None:
    """Have the agent answer something else."""
    honest = it.node.ports.planned_arrivals

    def answer(asked: Arrivals) -> PlannedArrivals | None:
        said = honest(asked)
        if said is None or not said.containers:
            return said
        return replace(said, containers=tuple(replace(c, **changes) for c in said.containers))  # type: ignore[arg-type]

    it.node.ports = replace(it.node.ports, planned_arrivals=answer)


def told(it: Story) -> RunReport:
    comes(it)
    return it.tell()


def untouched(it: Story, report: RunReport) -> bool:
    done = it.node.calls.effects
    return (
        (report.outcome, report.reason, report.restarted) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED, 0)
        and "runtime.rewrite" not in done
        and it.node.kubelet.replaced == []
    )


def is_guest(container: ContainerInstance) -> bool:
    return container.name == "guest"


def grows(it: Story, size: int, which: Callable[[ContainerInstance], bool] = is_guest) -> None:
    """Have the runtime store so many bytes about containers, whose authors decide about their environments."""
    read = it.node.runtime.before_images

    def images(ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        grown = {c.id for c in it.node.inventory().containers if which(c)}
        found = read(ids).items()
        return {i: replace(image, data=bytes(size)) if i in grown else image for i, image in found}

    it.node.runtime.before_images = images  # type: ignore[method-assign]


def test_a_pod_that_came_with_more_than_a_journal_takes_without_a_kubelet_turns_the_run_back() -> None:
    it = story()
    grows(it, LARGEST_ARRIVALS + 1)

    report = told(it)

    assert untouched(it, report)
    assert "default/late/guest" in report.message
    assert len(it.node.journal.data) < LARGEST_ARRIVALS


def test_a_large_pod_that_came_before_the_stop_is_found_while_the_kubelet_runs() -> None:
    it = story()
    grows(it, LARGEST_ARRIVALS + 1)
    it.node.calls.before("services.start nodeupgrade-dead-man.timer", lambda: it.node.kubelet.pods.append(LATE))
    it.node.calls.durations["services.start nodeupgrade-dead-man.timer"] = 2.0

    assert untouched(it, it.tell())
    assert STOP not in it.node.calls.effects


def test_what_was_restarted_with_the_same_hash_may_have_grown_since() -> None:
    """No hash is of what a ConfigMap brings into an environment."""
    it = story()
    planned = {c.id for c in it.plan.containers}
    grows(it, LARGEST_ARRIVALS + 1, lambda container: container.id not in planned)
    is_restarted(it)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert "runtime.rewrite" not in it.node.calls.effects


def test_without_an_answer_nothing_is_touched() -> None:
    it = story()
    it.node.ports = replace(it.node.ports, planned_arrivals=lambda _asked: None)

    assert untouched(it, told(it))


@pytest.mark.parametrize("when", ["services.start nodeupgrade-dead-man.timer", "services.mask kubelet.service"])
def test_what_had_crashed_before_is_no_damage_of_a_run_that_turns_back(when: str) -> None:
    it = story()
    it.node.ports = replace(it.node.ports, planned_arrivals=lambda _asked: None)

    def happen() -> None:
        it.node.runtime.end(it.container("nginx"), 137)
        it.node.kubelet.pods.append(LATE)

    it.node.calls.before(when, happen)
    it.node.calls.durations[when] = 2.0

    it.tell()

    report = summed_up([parse(it.node.journal.data)[0]])
    assert report is not None
    assert untouched(it, report)


def test_what_cannot_be_proved_is_found_before_the_kubelet_stops() -> None:
    it = story()
    stranger = it.plan.baseline.sandboxes[0]
    it.node.runtime.create_container(stranger, "debug", HashValue("1"))

    report = it.tell()

    assert untouched(it, report)
    assert STOP not in it.node.calls.effects


def test_an_answer_about_something_else_is_not_believed() -> None:
    for changes in (
        {"id": ContainerId("elsewhere")},
        {"name": "other"},
        {"before": replace(story().plan.containers[0].before, container=HashValue("1"))},
        {"after": replace(story().plan.containers[0].after, container=None)},
    ):
        it = story()
        lies(it, **changes)
        assert untouched(it, told(it)), changes


def test_what_begins_at_the_runtime_after_the_look_turns_the_run_back() -> None:
    """A call that was under way when the kubelet was stopped."""
    it = story()
    sandbox = it.plan.baseline.sandboxes[0]

    def begins() -> None:
        it.node.runtime.create_container(sandbox, "debug", HashValue("1"))

    it.node.calls.before("services.restart containerd.service", begins)

    report = it.tell()

    status = run_status("run-1", it.plan, parse(it.node.journal.data)[0])
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert status.phase is TaskPhase.ROLLED_BACK
    assert "no hash was rewritten" not in status.message


def test_the_last_look_is_right_before_the_stop() -> None:
    """All that takes time comes first, and the journal shows it."""
    it = story()
    for effect in ("services.reload", "services.start nodeupgrade-dead-man.timer", "files.copy"):
        it.node.calls.durations[effect] = 5.0

    it.tell()

    journal = parse(it.node.journal.data)[0]
    looked, stopped = journal.first(Step.ARM_DEAD_MAN, Mark.DONE), journal.first(Step.STOP_KUBELET, Mark.DOING)
    assert looked is not None
    assert stopped is not None
    assert stopped.monotonic - looked.monotonic <= 0.3
    assert all(c.state is ContainerState.RUNNING for c in it.node.inventory().running())


@pytest.mark.parametrize("number", [15, CONTAINERS_LISTED + 5], ids=["some", "more than are listed"])
def test_jobs_that_were_gone_before_a_run_that_turns_back_were_not_restarted(number: int) -> None:
    """Finished ones are deleted at any time, such as by their TTL or a CronJob's history limit."""
    it = story(jobs=tuple(f"j{n}" for n in range(number)))
    it.node.ports = replace(it.node.ports, planned_arrivals=lambda _asked: None)
    comes(it)

    def gone() -> None:
        for job in [c for c in it.plan.containers if c.name.startswith("work-")]:
            sandbox = it.node.runtime.containers.pop(job.id).instance.sandbox_id
            del it.node.runtime.sandboxes[sandbox]
        it.node.kubelet.pods = [pod for pod in it.node.kubelet.pods if not pod.ref.name.startswith("j")]

    it.node.calls.before("services.mask kubelet.service", gone)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert (report.restarted, report.listed, len(report.ended)) == (0, (), number)


def test_what_the_runtime_does_not_show_any_more_has_not_ended_for_that() -> None:
    """It was restarted by somebody, and could not load a pod whose shim was slow: a kubelet would create it again."""
    it = story()
    troubles = it.node.runtime.troubles

    def loses() -> None:
        troubles.overlooks = {it.container("nginx")}
        it.node.timeline.after(600.0, troubles.overlooks.clear)

    it.node.calls.before(STOP, loses)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_LOST_PODS)
    assert (report.restarted, it.node.kubelet.replaced, it.node.kubelet.violations) == (0, [], [])


def test_what_the_old_kubelet_began_again_leaves_no_node_without_one() -> None:
    """The runtime had lost every pod before, whose processes still live."""
    it = story()

    def loses() -> None:
        it.node.runtime.troubles.elsewhere = True
        it.node.runtime.restart()

    it.node.calls.before(STOP, loses)
    it.node.calls.durations[STOP] = 5.0

    report = it.tell()

    assert (report.outcome, report.restarted, report.baseline) == (Outcome.UPGRADED, 0, 4)
    assert len(report.ended_before) == 4


def test_a_listing_that_lacks_a_container_for_a_moment_is_no_end_of_it() -> None:
    it = story()
    stopped, looks = [False], iter(range(10**6))

    def forgetful(name: str, _number: int, _moment: object) -> None:
        stopped[0] = stopped[0] or name == STOP
        hidden = name == "runtime.inventory" and stopped[0] and next(looks) == 0
        it.node.runtime.troubles.overlooks = {it.container("nginx")} if hidden else set()

    it.node.calls.interrupt = forgetful

    report = it.tell()

    assert (report.outcome, report.baseline, report.ended_before) == (Outcome.UPGRADED, 4, ())


def test_a_static_pod_that_was_restarted_and_starts_well_is_taken_in() -> None:
    """As those of kubeadm, which have startup probes."""
    data = manifest("etcd", "etcd").replace(b"'}", b"', startupProbe: {exec: {command: [up]}, failureThreshold: 24}}")
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")], manifests={"etcd.yaml": data})
    examination = examination_of(node, "v1.33.13", limits=LIMITS)
    assert examination.plan is not None
    node.shield.plan = examination.plan
    asked, honest = list[Arrivals](), agent_for(node, examination)

    def answer(question: Arrivals) -> PlannedArrivals:
        asked.append(question)
        return honest(question)

    node.ports = replace(node.ports, planned_arrivals=answer)
    it = Story(node, examination.plan)
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(it.container("etcd"), 1))
    it.node.calls.durations["services.mask kubelet.service"] = 2.0

    report = it.tell()

    assert (report.outcome, report.restarted, len(asked)) == (Outcome.UPGRADED, 0, 1), report.message
    assert it.node.kubelet.replaced == []
