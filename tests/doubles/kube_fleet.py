"""A fleet for an in-memory API server: Nodes, Pods, and simulated node sides that react to agent pods.

Node sides write what real ones write: the agent pod's phase, the task's status, the Node's version. Each node follows
a script, so that a story can cover every way in which a run can end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.json import Json, timestamp, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import GuardReport, GuardState, Preview, StepResult, StepStatus, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import RunKind
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, RUN_LABEL, PodRole
from nodeupgrade.cluster.kube_api import JOBS, NODES, PODS, TASKS, NotFoundError
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.agents.manifests import AGENT_CONTAINER, KEEPER_CONTAINER, view_agent
from tests.doubles.kube import merged


class Part(StrEnum):
    """What the node side does once its agent runs."""

    SUCCEED = "succeed"
    REFUSE = "refuse"
    REFUSE_FOR_NOW = "refuse-for-now"
    """For a reason that usually passes."""
    ROLL_BACK = "roll-back"
    FAIL_TO_ROLL_BACK = "fail-to-roll-back"
    LIE = "lie"
    """Report success although a container restarted."""
    FLAP = "flap"
    """Succeed, after pods were reported unready although nothing restarted."""
    CANNOT_PULL = "cannot-pull"
    """The agent pod never starts."""
    SILENT = "silent"
    """The agent runs and reports nothing: it does not reach the API server."""
    DIE = "die"
    """The machine dies in mid-run: its agent stays Running, and nobody hears of it again."""
    HANG = "hang"
    """Run until aborted, then roll back."""


INTERIM = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""What the Job controller sets before a Job's final condition."""


@dataclass(slots=True)
class FleetSimulator:
    """Simulates all nodes of a cluster."""

    kube: TypedKube
    namespace: str
    parts: Mapping[str, Part] = field(default_factory=dict)  # by node; nodes that are not listed succeed
    pods_lost: dict[str, int] = field(default_factory=dict)  # by node, how many agent pods fail before one survives
    # by node, why its kubelet rejects agent pods: reason and message
    rejected: dict[str, tuple[str, str]] = field(default_factory=dict)
    # by template of a hook, how its Jobs end: a condition's type, reason and message; None if they never do. Those that
    # are not listed are complete at the next tick.
    hooks: dict[str, tuple[str, str, str] | None] = field(default_factory=dict)

    async def add_node(self, name: str, *, version: str = "v1.30.14", overrides: Json | None = None) -> None:
        """Add a Ready Linux node with containerd; ``overrides`` are merged into it."""
        body = merged(node_object(name, version), overrides or {})
        await self.kube.create(NODES, body)
        await self.kube.replace_status(NODES, name, body["status"])

    async def add_pod(self, name: str, node: str, *, overrides: Json | None = None) -> None:
        """Add a running pod with one container; ``overrides`` are merged into it."""
        body = merged(pod_object(name, node), overrides or {})
        pods = PODS.within(body["metadata"]["namespace"])
        await self.kube.create(pods, body)
        await self.kube.replace_status(pods, name, body["status"])

    async def tick(self) -> None:
        """Let every node side take its next step."""
        pods = PODS.within(self.namespace)
        for pod in await self.kube.list(pods, labels=AGENT_LABELS):
            await self.serve(pod)
        for job in await self.kube.list(JOBS.within(self.namespace)):
            await self.run_job(job)

    async def run_job(self, job: Json) -> None:
        """Let a hook's Job end, as the Job controller does."""
        template = (job["metadata"].get("annotations") or {}).get("nodeupgrade.dev/template")
        if template is None or job.get("status"):
            return
        told = self.hooks.get(template, ("Complete", "", ""))
        if told is None:
            return
        kind, reason, message = told
        now = timestamp(self.kube.utcnow())
        # With JobManagedBy (KEP-4368, on from 1.32) API servers demand the times, and the interim condition as well.
        ended = [
            {"type": each, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
            for each in (INTERIM[kind], kind)
        ]
        times = {"startTime": now, **({"completionTime": now} if kind == "Complete" else {})}
        jobs = JOBS.within(self.namespace)
        await self.kube.replace_status(jobs, job["metadata"]["name"], {**times, "conditions": ended})

    async def serve(self, pod: Json) -> None:
        """Let the node side of one agent pod take its next step."""
        name, node, pods = pod["metadata"]["name"], pod["spec"]["nodeName"], PODS.within(self.namespace)
        if pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
            return
        if not await self._exists(node):
            return
        if node in self.rejected:
            reason, words = self.rejected[node]
            await self.kube.replace_status(pods, name, {"phase": "Failed", "reason": reason, "message": words})
            return
        if self.parts.get(node) is Part.CANNOT_PULL:
            await self.kube.replace_status(pods, name, _waiting("ImagePullBackOff"))
            return
        if pod.get("status", {}).get("phase") != "Running":
            await self.kube.replace_status(pods, name, _running(view_agent(pod).role, self.kube.utcnow()))
            return
        if view_agent(pod).role is PodRole.ARTIFACT or self.parts.get(node) is Part.SILENT:
            return
        if self.pods_lost.get(node, 0) > 0:
            self.pods_lost[node] -= 1
            await self.kube.replace_status(pods, name, {"phase": "Failed"})
            return
        try:
            task = parse_task(await self.kube.get(TASKS, node))
        except NotFoundError:
            return
        asked = task.spec.run_id == pod["metadata"]["labels"][RUN_LABEL] and task.spec.action is not TaskAction.RELEASE
        if asked and not task.reported.phase.terminal:
            await self._work(task, ask=pod["metadata"]["uid"])
        else:
            await self.kube.replace_status(pods, name, {"phase": "Succeeded"})

    async def _exists(self, node: str) -> bool:
        try:
            await self.kube.get(NODES, node)
        except NotFoundError:
            return False
        return True

    async def _work(self, task: Task, ask: str) -> None:
        """Advance by one phase according to the part; ``ask`` differs for each agent."""
        part, reported = self.parts.get(task.name, Part.SUCCEED), task.reported
        if reported.phase is TaskPhase.PENDING:
            await self._report(task, phase=TaskPhase.STAGING)
        elif part is Part.REFUSE:
            message = "container web of pod default/web-0 carries a hash that cannot be recomputed"
            await self._report(task, phase=TaskPhase.REFUSED, reason=Reason.STORED_HASH_NOT_REPRODUCED, message=message)
        elif part is Part.REFUSE_FOR_NOW:
            message = "pod default/web-0: its sandbox is not ready although containers run in it"
            await self._report(task, phase=TaskPhase.REFUSED, reason=Reason.POD_IN_TRANSITION, message=message)
        elif task.kind is RunKind.PRECHECK:
            await self._finish_precheck(task)
        elif reported.phase in {TaskPhase.STAGING, TaskPhase.STAGED}:
            await self._begin(task, ask)
        elif part is Part.DIE or (part is Part.HANG and task.spec.action is not TaskAction.ABORT):
            return
        elif (
            reported.guard.state is GuardState.IN_FORCE
            and (following := _next_phase(reported, part, self.kube.utcnow())) is not None
        ):
            await self._report(task, phase=following[0], steps=following[1])
        else:
            await self._end(task, part)

    async def _begin(self, task: Task, ask: str) -> None:
        """Start the run, after the readiness guard if it is wanted."""
        granted, asked = task.spec.guard, task.reported.guard
        if task.spec.action is TaskAction.ABORT:
            await self._report(task, phase=TaskPhase.FAILED, reason=Reason.ABORTED, message="the node is untouched")
        elif not granted.wanted:
            await self._report(task, phase=TaskPhase.RUNNING)
        elif asked.ask != ask:
            await self._report(task, phase=TaskPhase.STAGED, guard=GuardReport(state=GuardState.ASKED, ask=ask))
        elif granted.answers == ask:
            state = GuardState.NOT_IN_FORCE if granted.kubelet_runs_by is None else GuardState.IN_FORCE
            if state is GuardState.NOT_IN_FORCE and task.spec.verify.readiness_guard is GuardPolicy.REQUIRE:
                reason = Reason.READINESS_GUARD_UNAVAILABLE
                await self._report(task, phase=TaskPhase.FAILED, reason=reason, message="the node is untouched")
            else:
                await self._report(task, phase=TaskPhase.RUNNING, guard=replace(asked, state=state))

    async def _finish_precheck(self, task: Task) -> None:
        """Report what an upgrade would do, without touching the node."""
        if task.spec.action is TaskAction.ABORT:
            await self._report(task, phase=TaskPhase.FAILED, reason=Reason.ABORTED, message="the look was broken off")
            return
        preview = Preview(rewritten=1, unchanged=1, would_restart=1)
        await self._report(task, phase=TaskPhase.PRECHECKED, reason=Reason.PRECHECKED, preview=preview)

    async def _end(self, task: Task, part: Part) -> None:
        if part is Part.FAIL_TO_ROLL_BACK:
            await self._report(task, phase=TaskPhase.ROLLBACK_FAILED, reason=Reason.ROLLBACK_FAILED)
            return
        if part in {Part.ROLL_BACK, Part.HANG}:
            reason = Reason.KUBELET_DID_NOT_START if part is Part.ROLL_BACK else Reason.ABORTED
            await self._report(task, phase=TaskPhase.ROLLED_BACK, reason=reason, message="the old kubelet runs again")
            return
        if part is Part.LIE:
            await self._restart_containers(task.name)
        pods = [pod["metadata"] for pod in await self._workload(task.name)] if part is Part.FLAP else []
        flaps = tuple(f"{pod['namespace']}/{pod['name']}" for pod in pods)
        await self._set_kubelet_version(task)
        await self._report(task, phase=TaskPhase.SUCCEEDED, reason=Reason.SUCCEEDED, flaps=flaps)

    async def _report(
        self,
        task: Task,
        *,
        phase: TaskPhase,
        reason: Reason | None = None,
        message: str = "",
        preview: Preview | None = None,
        guard: GuardReport | None = None,
        steps: tuple[StepStatus, ...] = (),
        flaps: tuple[str, ...] = (),
    ) -> None:
        now = self.kube.utcnow()
        before = task.reported
        touched = phase in {
            TaskPhase.SUCCEEDED,
            TaskPhase.ROLLED_BACK,
            TaskPhase.ROLLBACK_FAILED,
        }
        counts = replace(before.containers, readiness_flaps=flaps or before.containers.readiness_flaps)
        running = max(1, len(tuple(await self._workload(task.name)))) if touched else 0
        status: TaskStatus = replace(
            before,
            observed_generation=task.generation,
            phase=phase,
            reason=reason or "",
            message=message,
            started_at=before.started_at or now,
            finished_at=now if phase.terminal else None,
            steps=steps or (_steps_at_the_end(phase, before, now) if touched else ()),
            guard=guard or before.guard,
            preview=preview,
            containers=replace(counts, baseline=running, rewritten=running, unchanged=running) if touched else counts,
        )
        await self.kube.replace_status(TASKS, task.name, to_json(status))

    async def _set_kubelet_version(self, task: Task) -> None:
        node = await self.kube.get(NODES, task.name)
        node["status"]["nodeInfo"]["kubeletVersion"] = task.spec.to_version
        await self.kube.replace_status(NODES, task.name, node["status"])

    async def _restart_containers(self, node: str) -> None:
        now = timestamp(self.kube.utcnow())
        for pod in await self._workload(node):
            status = pod["status"]["containerStatuses"][0]
            status |= {"containerID": "containerd://fffffffffffff", "restartCount": 1}
            status["lastState"] = {"terminated": {"finishedAt": now}}
            where = PODS.within(pod["metadata"]["namespace"])
            await self.kube.replace_status(where, pod["metadata"]["name"], pod["status"])

    async def _workload(self, node: str) -> Iterable[Json]:
        pods = await self.kube.list(PODS, fields={"spec.nodeName": node})
        return [pod for pod in pods if pod["metadata"]["namespace"] != self.namespace]


def node_object(name: str, version: str) -> Json:
    """Return a Ready Linux node with containerd."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": "web"}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kubeletVersion": version,
                "containerRuntimeVersion": "containerd://1.7.24",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def pod_object(name: str, node: str) -> Json:
    """Return a running pod with one container, in the namespace default."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main",
                    "containerID": "containerd://0123456789abcdef",
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        },
    }


def _next_phase(reported: TaskStatus, part: Part, now: datetime) -> tuple[TaskPhase, tuple[StepStatus, ...]] | None:
    """Return the next phase and its steps around a kubelet's start: the new one's, or the old one's in a rollback."""
    if reported.phase is TaskPhase.RUNNING:
        verifying = StepStatus(name=Step.VERIFY, result=StepResult.DOING, started_at=now)
        return TaskPhase.VERIFYING, (*_steps(_STARTED, StepResult.DONE, reported, now), verifying)
    if reported.phase is TaskPhase.VERIFYING and part in {Part.ROLL_BACK, Part.HANG}:
        undoing = StepStatus(name=Step.START_KUBELET, result=StepResult.UNDOING, started_at=now)
        return TaskPhase.ROLLING_BACK, (*_steps(_STARTED[:-1], StepResult.DONE, reported, now), undoing)
    return None


_STARTED = tuple(Step)[: tuple(Step).index(Step.START_KUBELET) + 1]
"""The steps until the new kubelet runs."""


def _steps(steps: Iterable[Step], result: StepResult, reported: TaskStatus, now: datetime) -> tuple[StepStatus, ...]:
    """Return steps that end now if they have not before; a script's steps take no time of their own."""
    known = {step.name: step for step in reported.steps}

    def ended(step: Step) -> StepStatus:
        before = known.get(step, StepStatus(name=step, result=result, started_at=now))
        return replace(before, result=result, finished_at=before.finished_at or now)

    return tuple(map(ended, steps))


def _steps_at_the_end(phase: TaskPhase, reported: TaskStatus, now: datetime) -> tuple[StepStatus, ...]:
    if phase is TaskPhase.SUCCEEDED:
        return _steps(Step, StepResult.DONE, reported, now)
    return _steps(_STARTED, StepResult.UNDONE, reported, now)


def _running(role: PodRole, now: datetime) -> Json:
    name = AGENT_CONTAINER if role is PodRole.AGENT else KEEPER_CONTAINER
    state = {"running": {"startedAt": timestamp(now)}}
    main = {"name": name, "containerID": "containerd://a", "state": state, "restartCount": 0}
    return {"phase": "Running", "containerStatuses": [main]}


def _waiting(reason: str) -> Json:
    agent = {"name": AGENT_CONTAINER, "state": {"waiting": {"reason": reason}}, "restartCount": 0}
    return {"phase": "Pending", "containerStatuses": [agent]}
