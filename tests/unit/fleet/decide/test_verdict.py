"""What the control plane makes of a container that restarted, by when it ended."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import KubeletSettings, StaticPodPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, RunVerdict, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import (
    BetweenAttempts,
    ContainerCounts,
    OwnedChange,
    OwnerChange,
    ReportedHazard,
    StepResult,
    StepStatus,
    TaskPhase,
    TaskStatus,
)
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.fleet.decide.baseline import Baseline
from nodeupgrade.fleet.decide.verdict import decide_verdict
from tests.doubles.kube import merged
from tests.doubles.kube_fleet import pod_object

STOPPED = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTLED = STOPPED + timedelta(seconds=80)
END = SETTLED + timedelta(minutes=1)
NODE = NodeView(
    name=NodeName("node-0"),
    uid="n",
    resource_version="1",
    labels={},
    taints=(),
    unschedulable=False,
    cordoned_by="",
    ready=True,
    kubelet_version="v1.33.13",
    runtime="containerd://2.1.9",
    platform="linux-amd64",
)
BEFORE = parse_pod(merged(pod_object("web", "node-0"), {"metadata": {"uid": "p", "resourceVersion": "1"}}))
TASK = Task(
    name=NODE.name,
    uid="t",
    resource_version="1",
    generation=1,
    spec=TaskSpec(
        node_name=NODE.name,
        node_uid=NODE.uid,
        upgrade_ref=UpgradeRef(name="to-1-33", uid="u"),
        run_id=RunId("run"),
        from_version="v1.30.14",
        to_version=NODE.kubelet_version,
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        action=TaskAction.UPGRADE,
    ),
    status=TaskStatus(
        run_id="run",
        phase=TaskPhase.SUCCEEDED,
        steps=(
            StepStatus(name="stop-kubelet", result=StepResult.DONE, started_at=STOPPED, finished_at=STOPPED),
            StepStatus(name="verify", result=StepResult.DONE, started_at=STOPPED, finished_at=SETTLED),
        ),
        finished_at=END,
    ),
    baseline=Baseline.capture([BEFORE]).render(),
)


def test_static_pods_that_are_replaced_on_request_are_no_restart_and_no_success_of_ours() -> None:
    """Their mirror pods show another container; a pod that is not static is judged as ever."""
    mirror = {"annotations": {"kubernetes.io/config.mirror": "0123"}}
    before, after = ({**BEFORE.raw, "metadata": {**BEFORE.raw["metadata"], **mirror}} for _ in range(2))
    [container] = before["status"]["containerStatuses"]
    again = {**container, "containerID": "containerd://bbbbbbbbbbbb", "restartCount": 1}
    after["status"] = {**before["status"], "containerStatuses": [again]}
    shown = Baseline.capture([parse_pod(before)]).render()
    counts = replace(TASK.reported.containers, unchanged=4, recreated=1)
    task = replace(TASK, status=replace(TASK.reported, containers=counts), baseline=shown)
    asked = replace(task, spec=replace(task.spec, kubelet=KubeletSettings(static_pods=StaticPodPolicy.RECREATE)))

    pinned, recreated = (decide_verdict(NODE, each, (parse_pod(after),), END) for each in (task, asked))

    assert isinstance(pinned, RunVerdict)
    assert isinstance(recreated, RunVerdict)
    assert (pinned.outcome, pinned.restarted) == (Verdict.FAILED, 1)
    assert (recreated.outcome, recreated.restarted) == (Verdict.SUCCEEDED, 0)
    assert "4 containers counted" in recreated.message
    assert "1 container of static pods replaced on request" in recreated.message


@pytest.mark.parametrize(
    "ended",
    [SETTLED - timedelta(seconds=1), SETTLED + timedelta(seconds=1)],
    ids=["while the kubelet settled", "before anybody but the node has looked"],
)
def test_a_restart_of_which_the_node_shows_no_other_cause_counts_until_the_verdict(ended: datetime) -> None:
    [container] = BEFORE.raw["status"]["containerStatuses"]
    before = {"lastState": {"terminated": {"finishedAt": ended.isoformat()}}}
    again = {**container, "containerID": "containerd://bbbbbbbbbbbb", "restartCount": 1, **before}
    after = parse_pod({**BEFORE.raw, "status": {**BEFORE.raw["status"], "containerStatuses": [again]}})

    verdict = decide_verdict(NODE, TASK, (after,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is Verdict.FAILED
    assert "1 of its containers restarted: default/web/main" in verdict.message


def test_what_ended_by_itself_in_one_attempt_and_was_restarted_in_another_is_named() -> None:
    [container] = BEFORE.raw["status"]["containerStatuses"]
    before = {"lastState": {"terminated": {"finishedAt": DURING.isoformat(), "exitCode": 0}}}
    again = {**container, "containerID": "containerd://bbbbbbbbbbbb", "restartCount": 1, **before}
    after = parse_pod({**BEFORE.raw, "status": {**BEFORE.raw["status"], "containerStatuses": [again]}})
    label = ("default/web/main",)
    counts = ContainerCounts(ended_list=label, restarted=1, restarted_list=label)

    verdict = decide_verdict(NODE, replace(TASK, status=replace(TASK.reported, containers=counts)), (after,), END)

    assert isinstance(verdict, RunVerdict)
    assert (verdict.outcome, verdict.restarted_list) == (Verdict.FAILED, label)


@pytest.mark.parametrize("named", [(), ("default/web/main",)], ids=["unchanged", "ended by itself"])
@pytest.mark.parametrize("reason", ["NodeAffinity", None])
def test_a_pod_that_a_kubelet_has_rejected_counts_whatever_its_containers_made_of_it(
    reason: str | None, named: tuple[str, ...]
) -> None:
    """A Job's pod that handles SIGTERM exits with 0, is not started again, and stays the instance that it was."""
    [container] = BEFORE.raw["status"]["containerStatuses"]
    done = {"terminated": {"exitCode": 0, "finishedAt": (STOPPED + timedelta(seconds=1)).isoformat()}}
    status = {"phase": "Failed", "reason": reason, "containerStatuses": [{**container, "state": done}]}
    task = replace(TASK, status=replace(TASK.reported, containers=replace(TASK.reported.containers, ended_list=named)))

    verdict = decide_verdict(NODE, task, (parse_pod({**BEFORE.raw, "status": status}),), END)

    assert isinstance(verdict, RunVerdict)
    counted = (Verdict.FAILED, Reason.CONTAINER_RESTARTED) if reason else (Verdict.SUCCEEDED, Reason.SUCCEEDED)
    assert (verdict.outcome, verdict.reason) == counted


@pytest.mark.parametrize(
    ("counted", "code", "outcome", "restarted"),
    [(25, 1, Verdict.SUCCEEDED, 0), (24, 1, Verdict.FAILED, 5), (25, 137, Verdict.FAILED, 5)],
    ids=["as many as the API shows", "fewer", "but they were killed"],
)
def test_what_ended_by_itself_and_is_too_much_for_a_list_is_counted(
    counted: int, code: int, outcome: Verdict, restarted: int
) -> None:
    [container] = BEFORE.raw["status"]["containerStatuses"]
    names = [f"c{i:02}" for i in range(25)]

    def pod(**now: object) -> Pod:
        shown = [{**container, "name": name, "lastState": last(name), **now} for name in names]
        return parse_pod({**BEFORE.raw, "status": {**BEFORE.raw["status"], "containerStatuses": shown}})

    def last(name: str) -> dict[str, object]:
        exit_code = code if name >= names[20] else 1
        return {"terminated": {"finishedAt": DURING.isoformat(), "exitCode": exit_code}}

    before, after = pod(), pod(containerID="containerd://bbbbbbbbbbbb", restartCount=1)
    counts = ContainerCounts(ended=counted, ended_list=tuple(f"default/web/{name}" for name in names[:20]))
    task = replace(TASK, status=replace(TASK.reported, containers=counts), baseline=Baseline.capture([before]).render())

    verdict = decide_verdict(NODE, task, (after,), END)

    assert isinstance(verdict, RunVerdict)
    assert (verdict.outcome, verdict.restarted) == (outcome, restarted)


def test_a_node_that_never_got_quiet_is_refused_unless_the_api_shows_a_restart() -> None:
    """Its kubelet was stopped, so that the pods are looked at; only what restarted makes it a failure."""
    task = replace(TASK, status=replace(TASK.reported, phase=TaskPhase.REFUSED, reason=Reason.INVENTORY_CHANGED))

    verdicts = [decide_verdict(NODE, task, (pod,), END) for pod in (BEFORE, after(ended=SETTLED))]

    assert [each.outcome for each in verdicts if isinstance(each, RunVerdict)] == [Verdict.REFUSED, Verdict.ROLLED_BACK]


def after(*, ended: datetime, code: int = 1) -> Pod:
    """The pod, whose container restarted, as the API shows it."""
    [container] = BEFORE.raw["status"]["containerStatuses"]
    before = {"lastState": {"terminated": {"finishedAt": ended.isoformat(), "exitCode": code}}}
    again = {**container, "containerID": "containerd://bbbbbbbbbbbb", "restartCount": 1, **before}
    return parse_pod({**BEFORE.raw, "status": {**BEFORE.raw["status"], "containerStatuses": [again]}})


def between(since: datetime, until: datetime | None) -> Task:
    """A run of two attempts, of which the first was turned back; if the second stopped no kubelet, until is unset."""
    alone = (BetweenAttempts(since=since, until=until),)
    return replace(TASK, status=replace(TASK.reported, between_attempts=alone))


def confirmed(at: datetime, *, attempts: tuple[BetweenAttempts, ...] = ()) -> Task:
    """A run that took in until then what came and went while the kubelet was being stopped."""
    step = StepStatus(name="confirm-inventory", result=StepResult.DONE, started_at=at, finished_at=at)
    return replace(TASK, status=replace(TASK.reported, steps=(*TASK.reported.steps, step), between_attempts=attempts))


def reported(
    *,
    stopped: datetime = STOPPED,
    started: datetime | None = None,
    settled: datetime = SETTLED,
    ended: bool = False,
    connected: bool = False,
) -> Task:
    """The task of a run of which the node reports these times, and maybe that the container ended by itself.

    With ``connected``, it was named beforehand as one that might end with the runtime.
    """
    steps = (
        StepStatus(name="stop-kubelet", result=StepResult.DONE, started_at=stopped, finished_at=stopped),
        *(StepStatus(name="start-kubelet", result=StepResult.DONE, started_at=at) for at in (started,) if at),
        StepStatus(name="verify", result=StepResult.DONE, started_at=stopped, finished_at=settled),
    )
    counts = ContainerCounts(ended_list=("default/web/main",) if ended else ())
    names = ("default/web/other", "default/web/main")
    named = ReportedHazard(reason=Reason.RUNTIME_CONNECTION_WOULD_BREAK, pod=names[0], others=names[1:], warning=True)
    hazards = (named,) if connected else ()
    return replace(TASK, status=replace(TASK.status, steps=steps, containers=counts, hazards=hazards))


LATER = END + timedelta(minutes=1)
DURING = STOPPED + timedelta(seconds=5)


@pytest.mark.parametrize(
    ("task", "pod", "outcome", "told"),
    [
        (reported(stopped=LATER), after(ended=DURING), Verdict.FAILED, "restarted: default/web/main"),
        (reported(ended=True), after(ended=DURING, code=137), Verdict.FAILED, "restarted: default/web/main"),
        (reported(ended=True), after(ended=DURING, code=143), Verdict.FAILED, "restarted: default/web/main"),
        (reported(ended=True), after(ended=DURING, code=255), Verdict.FAILED, "restarted: default/web/main"),
        (
            reported(ended=True, connected=True),
            after(ended=DURING, code=137),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (
            reported(ended=True, connected=True),
            after(ended=DURING, code=255),
            Verdict.SUCCEEDED,
            "1 container not ended by the kubelet, as the node reports: default/web/main",
        ),
        (
            reported(ended=True, started=DURING),
            after(ended=DURING, code=255),
            Verdict.SUCCEEDED,
            "1 container not ended by the kubelet, as the node reports: default/web/main",
        ),
        (
            reported(ended=True, started=DURING),
            after(ended=DURING + timedelta(seconds=1), code=255),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (reported(started=DURING), after(ended=DURING, code=255), Verdict.FAILED, "restarted: default/web/main"),
        (
            reported(ended=True, started=DURING),
            after(ended=DURING, code=137),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (
            reported(ended=True, started=LATER),
            after(ended=DURING, code=255),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (
            reported(ended=True),
            after(ended=DURING, code=3),
            Verdict.SUCCEEDED,
            "1 container not ended by the kubelet, as the node reports: default/web/main",
        ),
        (
            reported(stopped=STOPPED),
            after(ended=STOPPED - timedelta(minutes=1)),
            Verdict.SUCCEEDED,
            "1 container restarted before the run or between its attempts, as the node reports: default/web/main",
        ),
        (
            between(STOPPED + timedelta(seconds=10), STOPPED + timedelta(seconds=30)),
            after(ended=STOPPED + timedelta(seconds=20), code=137),
            Verdict.SUCCEEDED,
            "1 container restarted before the run or between its attempts, as the node reports: default/web/main",
        ),
        (
            between(STOPPED + timedelta(seconds=10), STOPPED + timedelta(seconds=30, milliseconds=500)),
            after(ended=STOPPED + timedelta(seconds=30), code=137),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (
            between(STOPPED + timedelta(seconds=10), None),
            after(ended=STOPPED + timedelta(seconds=20), code=137),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
        (
            confirmed(DURING),
            after(ended=DURING),
            Verdict.SUCCEEDED,
            "1 container not ended by the kubelet, as the node reports: default/web/main",
        ),
        (confirmed(DURING), after(ended=DURING, code=137), Verdict.FAILED, "restarted: default/web/main"),
        (confirmed(DURING), after(ended=SETTLED, code=0), Verdict.FAILED, "restarted: default/web/main"),
        (confirmed(LATER), after(ended=DURING), Verdict.FAILED, "restarted: default/web/main"),
        (
            confirmed(
                SETTLED, attempts=(BetweenAttempts(since=DURING + timedelta(seconds=5), until=SETTLED),)
            ),
            after(ended=DURING),
            Verdict.FAILED,
            "restarted: default/web/main",
        ),
    ],
    ids=[
        "stop in the future", "killed", "terminated", "lost",
        "connected and killed", "connected and lost", "lost without a kubelet", "lost with the new one",
        "lost, of which the node does not report", "killed without a kubelet", "lost before a start in the future",
        "crashed", "before",
        "between attempts", "at the end of one", "after the last of them, a success",
        "crashed until the stop", "killed until the stop", "ended after the stop", "confirmed in the future",
        "crashed in an earlier attempt",
    ],
)  # fmt: skip
def test_what_a_node_reports_hides_nothing_that_the_api_shows(
    task: Task, pod: Pod, outcome: Verdict, told: str
) -> None:
    verdict = decide_verdict(NODE, task, (pod,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is outcome
    assert told in verdict.message


@pytest.mark.parametrize(("second", "outcome"), [(9, Verdict.ROLLED_BACK), (20, Verdict.REFUSED)])
def test_what_ended_after_an_attempt_that_none_followed_is_none_of_its_doing(second: int, outcome: Verdict) -> None:
    task = between(STOPPED + timedelta(seconds=10), None)
    task = replace(task, status=replace(task.reported, phase=TaskPhase.REFUSED, reason=Reason.INVENTORY_CHANGED))

    verdict = decide_verdict(NODE, task, (after(ended=STOPPED + timedelta(seconds=second), code=137),), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is outcome


def evicted(state: dict[str, object], message: str = "The node was low on resource: memory.", **last: object) -> Pod:
    """The pod as a kubelet reports it that has evicted it."""
    [container] = BEFORE.raw["status"]["containerStatuses"]
    shown = {**container, "state": {"terminated": {"exitCode": 137, **state}}, "lastState": {"terminated": last}}
    status = {"phase": "Failed", "reason": "Evicted", "message": message, "containerStatuses": [shown]}
    return parse_pod({**BEFORE.raw, "status": status})


OWN_LIMIT = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
BETWEEN = (STOPPED + timedelta(seconds=20)).isoformat()


@pytest.mark.parametrize(
    ("pod", "restarted"),
    [
        (evicted({"finishedAt": BETWEEN}), 0),
        (evicted({"finishedAt": (STOPPED + timedelta(seconds=35)).isoformat()}), 1),
        (evicted({"finishedAt": (STOPPED + timedelta(seconds=35)).isoformat()}, OWN_LIMIT), 0),
        (evicted({"finishedAt": None}), 1),
        (evicted({"finishedAt": None}, finishedAt=(STOPPED - timedelta(days=7)).isoformat(), exitCode=1), 1),
    ],
    ids=["between attempts", "since", "for its own limit", "unknown when", "unknown when, after a crash"],
)
def test_an_eviction_counts_unless_it_was_surely_not_by_the_new_kubelet(pod: Pod, restarted: int) -> None:
    task = between(STOPPED + timedelta(seconds=10), STOPPED + timedelta(seconds=30))
    verdict = decide_verdict(NODE, task, (pod,), END)
    assert isinstance(verdict, RunVerdict)
    assert verdict.restarted == restarted


def test_a_run_that_ends_in_the_future_is_not_waited_for() -> None:
    ends = replace(TASK.status, finished_at=datetime(9999, 1, 1, tzinfo=UTC))
    task = replace(TASK, spec=replace(TASK.spec, deadline=END), status=ends)
    late = END + TASK.spec.verify.node_ready_timeout + timedelta(seconds=1)

    verdict = decide_verdict(replace(NODE, ready=False), task, (BEFORE,), late)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is Verdict.FAILED


def with_image(pod: Pod, image: str, **metadata: str) -> Pod:
    [container] = pod.raw["spec"]["containers"]
    spec = {**pod.raw["spec"], "containers": [{**container, "image": image}]}
    return parse_pod({**pod.raw, "metadata": {**pod.raw["metadata"], **metadata}, "spec": spec})


RESTARTED = after(ended=SETTLED, code=137)


@pytest.mark.parametrize(
    ("shown", "restarted_list", "outcome"),
    [
        (with_image(RESTARTED, "other:2"), (), Verdict.SUCCEEDED),
        (RESTARTED, (), Verdict.FAILED),
        (with_image(RESTARTED, "other:2"), ("default/web/main",), Verdict.FAILED),
    ],
    ids=["its image was set", "nothing was changed", "the node saw that it was not because of that"],
)
def test_a_restart_that_an_owner_wanted_is_none_of_ours(
    shown: Pod, restarted_list: tuple[str, ...], outcome: Verdict
) -> None:
    """Also after the node side has ended: the API server shows it by itself."""
    counts = replace(TASK.reported.containers, restarted_list=restarted_list)

    verdict = decide_verdict(NODE, replace(TASK, status=replace(TASK.reported, containers=counts)), (shown,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is outcome
    assert ("1 container changed by their owners: default/web/main" in verdict.message) is (
        outcome is Verdict.SUCCEEDED
    )


def test_a_claim_of_the_node_side_does_not_stand_for_what_the_api_server_shows() -> None:
    """Of a pod that is not static, the API server shows itself whether its owner changed anything."""
    claims = (
        OwnedChange(name="default/web/main", change=OwnerChange.IMAGE_CHANGED),
        OwnedChange(name="default/web", change=OwnerChange.MANIFEST_CHANGED),
    )
    counts = replace(TASK.reported.containers, owner_changes=claims)

    verdict = decide_verdict(NODE, replace(TASK, status=replace(TASK.reported, containers=counts)), (RESTARTED,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is Verdict.FAILED


@pytest.mark.parametrize(
    ("claimed", "before", "now", "outcome"),
    [
        ("default/web/main", 1, 3, Verdict.SUCCEEDED),
        ("default/web/main", 1, 1, Verdict.FAILED),
        ("default/web/main", 0, 0, Verdict.FAILED),
        ("default/web/other", 1, 3, Verdict.FAILED),
        ("", 1, 3, Verdict.FAILED),
    ],
    ids=["set and set back", "never set", "an API server before 1.33", "of another container", "not seen by the node"],
)
def test_an_image_that_was_set_and_set_back_is_the_owners_if_node_and_api_server_agree(
    claimed: str, before: int, now: int, outcome: Verdict
) -> None:
    begun, ended = (
        parse_pod({**pod.raw, "metadata": {**pod.raw["metadata"], **({"generation": count} if count else {})}})
        for pod, count in ((BEFORE, before), (RESTARTED, now))
    )
    changes = (OwnedChange(name=claimed, change=OwnerChange.IMAGE_CHANGED),) if claimed else ()
    counts = replace(TASK.reported.containers, owner_changes=changes)
    task = replace(TASK, status=replace(TASK.reported, containers=counts), baseline=Baseline.capture([begun]).render())

    verdict = decide_verdict(NODE, task, (ended,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is outcome


@pytest.mark.parametrize("told", [True, False])
def test_of_a_static_pod_only_the_node_side_can_say_that_its_manifest_was_edited(told: bool) -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.hash": "0123"}}
    before, edited = (
        parse_pod({**pod.raw, "metadata": {**pod.raw["metadata"], **mirror}}) for pod in (BEFORE, RESTARTED)
    )
    changes = (OwnedChange(name="default/web", change=OwnerChange.MANIFEST_CHANGED),) if told else ()
    counts = replace(TASK.reported.containers, owner_changes=changes)
    task = replace(TASK, status=replace(TASK.reported, containers=counts), baseline=Baseline.capture([before]).render())

    verdict = decide_verdict(NODE, task, (with_image(edited, "other:2"),), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is (Verdict.SUCCEEDED if told else Verdict.FAILED)
