"""What the agent answers if it cannot tell how what came is to be taken in: why, while the executor waits for it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.kube_api import Keep, UnavailableError
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import Refused, Transient
from nodeupgrade.kubelethash.errors import HashError
from nodeupgrade.node.agent import arrivals
from nodeupgrade.node.agent.arrivals import PATIENCE_SECONDS, ArrivalPlanner
from nodeupgrade.node.agent.preparation import Prepared
from nodeupgrade.node.agent.task_reporter import REQUEST_SECONDS
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.plan.amendment import AMENDMENT_SCHEMA, Arrivals, PlannedArrivals
from nodeupgrade.node.run.plan_amendment import ANSWER_SECONDS, LOOK_SECONDS
from nodeupgrade.node.running_kubelet.kubelet import Answer
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.doubles.node import SimulatedNode, examination_of, pod_json
from tests.scenario.agent.harness import NODE, RUN, ControlPlane, World
from tests.scenario.agent.host import Credentials, SimulatedHost

STATE = "/var/lib/kubelet/cpu_manager_state"
LATE = parse_pod(pod_json("late", "guest"))


async def test_why_what_came_cannot_be_planned_is_told_at_once(world: World) -> None:
    """Pods that mount the kubelet's directories, such as device plugins, can put anything in place of its files."""

    def comes() -> None:
        world.node.kubelet.pods.append(LATE)
        world.node.files.odd[STATE] = "it is not a regular file"

    world.node.calls.before("services.mask kubelet.service", comes)
    world.node.calls.durations["services.mask kubelet.service"] = 2.0

    await world.serve()

    journal = world.runs.read_journal(RunId(f"{RUN}.1"))
    (failed,) = (record for record in journal.records if record.mark is Mark.FAILED)
    (asked,) = (r for r in journal.records if r.step is Step.STOP_KUBELET and r.mark is Mark.DONE)
    assert failed.reason == Reason.INVENTORY_CHANGED
    assert f"cannot be taken in: cannot read {STATE} because it is not a regular file" in (failed.error or "")
    assert failed.monotonic - asked.monotonic < ANSWER_SECONDS / 2


class Kube:
    """Shows the pods once the list of what it fails with, and after how long, is used up."""

    def __init__(self, node: SimulatedNode, *fails: Exception, after: float) -> None:
        self.node, self.fails, self.after = node, [*fails], after

    async def list_pods_on_node(self, _node: str, _keep: Keep | None = None) -> list[dict[str, Any]]:
        if self.fails:
            self.node.timeline.advance(self.after)
            raise self.fails.pop(0)
        return [dict(pod.raw) for pod in self.node.kubelet.pods]


def asking(
    root: Path,
    *fails: Exception,
    after: float = 0.0,
    late: Pod = LATE,
    old: str = "v1.30.5",
    new: str = "v1.33.13",
    selinux: bool = False,
    control_plane: Credentials | None = None,
) -> tuple[SimulatedNode, ArrivalPlanner, Callable[[], PlannedArrivals | None]]:
    """A pod has come; return how its executor asks."""
    node = SimulatedNode(
        version=old,
        pods=[pod_json("web", "nginx")],
        arguments=("--kubeconfig=/etc/kubelet.conf",),
        disk={"/etc/kubelet.conf": b"{}"},
    )
    examination = examination_of(node, new)
    facts = examination.facts
    facts = replace(facts, around=replace(facts.around, selinux=selinux))
    examination = replace(examination, facts=facts)
    assert examination.plan is not None
    runs, plan = RunStore(root / "runs", mount=root), examination.plan
    runs.write_plan(plan)
    host, prepared = SimulatedHost(node, control_plane or ControlPlane()), Prepared(plan, examination)
    kube = Kube(node, *fails, after=after)
    planner = ArrivalPlanner(runs, kube, NODE, host, prepared)  # type: ignore[arg-type]
    node.kubelet.pods.append(late)
    node.timeline.advance(1.0)
    now, known = node.inventory(), {c.id for c in plan.baseline.containers}
    came = Inventory(containers=tuple(c for c in now.containers if c.id not in known), sandboxes=now.sandboxes)
    assert [c.name for c in came.containers] == ["guest"]
    asked = Arrivals(schema=AMENDMENT_SCHEMA, run_id=plan.run_id, inventory=came)
    return node, planner, lambda: runs.ask_for_plan(plan.run_id, asked)


def looks(seconds: float) -> range:
    return range(round(seconds / LOOK_SECONDS))


@pytest.mark.parametrize("error", [UnavailableError("nobody answers"), TimeoutError(), OSError("disk is busy")])
async def test_what_may_pass_is_tried_again_until_the_executor_must_know(tmp_path: Path, error: Exception) -> None:
    node, planner, ask = asking(tmp_path, *[error] * 1000)

    assert ask() is None
    for _ in looks(PATIENCE_SECONDS):
        await planner.answer()
        assert ask() is None
        node.timeline.advance(LOOK_SECONDS)
    node.timeline.advance(LOOK_SECONDS)
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert answer.asked == (next(c.id for c in node.inventory().running() if c.name == "guest"),)
    assert (str(error) or "the API server does not answer") in (answer.obstacle or "")
    assert PATIENCE_SECONDS <= ANSWER_SECONDS / 2


async def test_an_api_server_that_is_waited_for_in_vain_is_waited_for_once(tmp_path: Path) -> None:
    _, planner, ask = asking(tmp_path, *[TimeoutError()] * 2, after=REQUEST_SECONDS)

    ask()
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert "API server" in (answer.obstacle or "")
    assert REQUEST_SECONDS < ANSWER_SECONDS


async def test_what_passes_is_no_obstacle(tmp_path: Path) -> None:
    node, planner, ask = asking(tmp_path, *[UnavailableError("nobody answers")] * 3)

    ask()
    for _ in looks(PATIENCE_SECONDS):
        await planner.answer()
        node.timeline.advance(LOOK_SECONDS)

    answer = ask()
    assert answer is not None
    assert (answer.obstacle, [c.name for c in answer.containers]) == (None, ["guest"])


@pytest.mark.parametrize("error", [HashError("a field is new"), Refused(Reason.KUBELET_WOULD_NOT_START, "a pipe")])
async def test_what_does_not_pass_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _, planner, ask = asking(tmp_path)

    def fails(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(arrivals, "plan_arrivals", fails)
    ask()
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert answer.obstacle == str(error)


async def test_another_question_is_tried_anew(tmp_path: Path) -> None:
    node, planner, ask = asking(tmp_path, *[UnavailableError("nobody answers")] * 2)

    ask()
    await planner.answer()
    node.timeline.advance(2 * PATIENCE_SECONDS)
    asked = planner.runs.arrivals(planner.prepared.plan.run_id)
    assert asked is not None
    planner.runs.ask_for_plan(asked.run_id, replace(asked, others=asked.inventory.containers))  # type: ignore[attr-defined]
    await planner.answer()

    assert ask() is None


CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/data"


@dataclass
class Claims(ControlPlane):
    """Answers about a PersistentVolumeClaim."""

    claim: Answer | Exception = Answer(404, "")
    seconds: float = 0.0  # for each answer

    def read(self, path: str) -> Answer:
        self.tried.append(path)
        time.sleep(self.seconds)
        if isinstance(self.claim, Exception):
            raise self.claim
        return self.claim


class Bound(ControlPlane):
    """Answers about a claim that is bound to a volume of a CSI driver."""

    def read(self, path: str) -> Answer:
        claim = {"metadata": {"uid": "c"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
        volume = {"spec": {"claimRef": {"uid": "c"}, "csi": {"driver": "d"}, "accessModes": ["ReadWriteMany"]}}
        driver = {"spec": {"seLinuxMount": True}}
        objects = {CLAIM: claim, "/api/v1/persistentvolumes/v": volume}
        return Answer(200, json.dumps(objects.get(path, driver)))


def with_claim() -> Pod:
    late = pod_json("late", "guest")
    late["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    late["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return parse_pod(late)


PENDING = Answer(200, json.dumps({"metadata": {"uid": "c"}, "spec": {}, "status": {"phase": "Pending"}}))


async def test_what_came_has_its_claims_read_as_long_as_the_kubelet_runs(tmp_path: Path) -> None:
    """As those of pods that are examined. No kubelet that starts would find the volume."""
    control_plane = Claims(claim=PENDING)
    _, planner, ask = asking(tmp_path, late=with_claim(), control_plane=control_plane)

    ask()
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert "default/late: its claim data is Pending, not Bound" in (answer.obstacle or "")
    assert control_plane.tried == [CLAIM]


async def test_what_came_with_a_volume_that_only_the_new_kubelet_mounts_with_a_label_is_found(tmp_path: Path) -> None:
    control_plane = Bound()
    pod = dict(with_claim().raw)
    pod["spec"]["securityContext"] = {"seLinuxOptions": {"level": "s0:c1,c2"}}
    _, planner, ask = asking(
        tmp_path, late=parse_pod(pod), control_plane=control_plane, old="v1.36.0", new="v1.37.0", selinux=True
    )

    ask()
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert "only kubelet v1.37.0 mounts its volume data with an SELinux label" in (answer.obstacle or "")


@pytest.mark.parametrize(
    ("claim", "seconds", "stopped"),
    [
        (Answer(404, ""), 0.0, False),  # the running kubelet has read it, and another API server may lag behind
        (Answer(500, ""), 0.0, False),
        (Transient("nobody answers"), 0.0, False),
        (PENDING, 0.5, False),
        (PENDING, 0.0, True),  # its credentials may not be at hand
    ],
    ids=["denied", "an error", "no answer", "too late", "stopped"],
)
async def test_claims_that_cannot_be_read_in_time_are_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Answer | Exception, *, seconds: float, stopped: bool
) -> None:
    """What came has just been given its volumes by a kubelet that has read them."""
    monkeypatch.setattr(arrivals, "CLAIMS_SECONDS", 0.05 if seconds else 30.0)
    control_plane = Claims(claim=claim, seconds=seconds)
    node, planner, ask = asking(tmp_path, late=with_claim(), control_plane=control_plane)
    if stopped:
        node.services.stop("kubelet.service")

    ask()
    await planner.answer()

    answer = ask()
    assert answer is not None
    assert (answer.obstacle, [c.name for c in answer.containers]) == (None, ["guest"])
    assert control_plane.tried == ([] if stopped else [CLAIM])
