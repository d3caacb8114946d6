"""What must be true at every write, whoever made it, and in the end. Numbers are the promises of docs/design.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import Key

_AT_WORK = frozenset({TaskAction.UPGRADE, TaskAction.ABORT})


@dataclass
class Oracle:
    """Watches every write of a trial."""

    objects: Mapping[Key, Json]  # all objects of the cluster, as they are now
    budget: int  # how many nodes may be in flight
    fenced: bool  # whether no write of a former leader takes effect at all
    foreign: frozenset[str]  # nodes that somebody else has cordoned
    unselected: frozenset[str]  # nodes that no rollout selects
    problems: list[str] = field(default_factory=list)  # what was wrong, each thing once
    _verdicts: dict[tuple[str, str], str] = field(default_factory=dict)
    _slots: frozenset[str] = frozenset()

    def look(self, _verb: str, name: str) -> None:
        """Check what a write has left; called by the API server right after it."""
        for (plural, _, key), body in self.objects.items():
            if key != name:
                continue
            if plural == "nodeupgradetasks":
                self._task(parse_task(body))
                self._budget()
            elif plural == "nodeupgrades":
                self._upgrade(body)
            elif plural == "nodes":
                self._node(body)

    def _budget(self) -> None:
        """P3: nodes at work are never more than the budget."""
        tasks = [parse_task(body) for (plural, _, _), body in self.objects.items() if plural == "nodeupgradetasks"]
        at_work = sorted(task.name for task in tasks if _is_at_work(task))
        if len(at_work) > self.budget:
            self._say(f"P3: {at_work} are at work, but the budget is {self.budget}")

    def _upgrade(self, body: Json) -> None:
        """P3: slots are never more than the budget. P4: none is given away while somebody has paused the rollout."""
        slots = frozenset(slot["node"] for slot in body.get("status", {}).get("inFlight", ()))
        if len(slots) > self.budget:
            self._say(f"P3: {sorted(slots)} have a slot, but the budget is {self.budget}")
        paused = body["metadata"].get("annotations", {}).get("nodeupgrade.dev/pause") == "true"
        if paused and slots - self._slots:
            self._say(f"P4: {sorted(slots - self._slots)} were admitted although the rollout is paused")
        self._slots = slots

    def _task(self, task: Task) -> None:
        """P4: a verdict is given once."""
        if (verdict := task.verdict) is not None:
            before = self._verdicts.setdefault((task.uid, verdict.run_id), verdict.outcome)
            if before != verdict.outcome:
                self._say(f"P4: the verdict on {task.name} was {before} and became {verdict.outcome}")

    def _node(self, body: Json) -> None:
        """P6: foreign cordons stay, and nodes that are not selected are never written."""
        name, metadata = body["metadata"]["name"], body["metadata"]
        if name in self.foreign and not body["spec"].get("unschedulable"):
            self._say(f"P6: the foreign cordon of {name} was removed")
        if name in self.unselected and (CORDON_ANNOTATION in metadata.get("annotations", {})):
            self._say(f"P6: {name} is not selected and was cordoned")

    def end(self, excused: set[str], expected: Json | None) -> Json:
        """Check the end: nothing of ours is left, and each node is as if nothing had happened.

        Args:
            excused: nodes that faults have taken out of the rollout for good reason.
            expected: the end without any faults; None if this is it.
        """
        found: Json = {"nodes": {}, "tasks": {}}
        for (plural, _, key), body in self.objects.items():
            if plural == "nodes":
                found["nodes"][key] = (
                    body["status"]["nodeInfo"]["kubeletVersion"],
                    bool(body["spec"].get("unschedulable")),
                )
                cordoned = CORDON_ANNOTATION in body["metadata"].get("annotations", {})
                if cordoned and not (key in excused and self._is_told_of(key)):
                    self._say(f"left behind: the cordon of {key}")
            elif plural == "nodeupgradetasks":
                task = parse_task(body)
                found["tasks"][key] = None if task.verdict is None else task.verdict.outcome.value
                if task.open:
                    self._say(f"left behind: the open task of {key}")
            elif plural == "pods" and key.startswith("nodeupgrade-agent"):
                self._say(f"left behind: the pod {key}")
            elif plural == "configmaps" and key == GUARD_NAME:
                left = {entry.rpartition("_")[2] for entry in body.get("data") or {}} - excused
                if left:
                    self._say(f"left behind: the guard of {sorted(left)}")
        for kind, states in (expected or {}).items():
            for name, state in states.items():
                if name not in excused and found[kind].get(name) != state:
                    self._say(f"the end: {kind} {name} is {found[kind].get(name)}, undisturbed it is {state}")
        return found

    def _is_told_of(self, node: str) -> bool:
        """Whether people were told of a cordon that only they can remove: the task that could tell is gone."""
        events = [body for (plural, _, _), body in self.objects.items() if plural == "events"]
        left = [event for event in events if event["reason"] == Reason.CORDON_LEFT_BEHIND]
        return any(event["involvedObject"]["name"] == node for event in left)

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _is_at_work(task: Task) -> bool:
    return task.spec.action in _AT_WORK and task.verdict is None and not task.reported.phase.terminal
