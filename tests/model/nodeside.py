"""What happens on the nodes: agents start, report and hand over; runs go on on the host whatever becomes of objects.

What is so on a host is kept in mind beside the objects: the run that its executor is at work on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS
from nodeupgrade.fleet.agents.manifests import AGENT_CONTAINER
from tests.model.adapter import NAMESPACE, is_agent
from tests.model.canonical import NOW
from tests.model.state import State
from tests.model.store import Store, done

AGENTS = PODS.within(NAMESPACE)
TERMINAL = frozenset({"Prechecked", "Refused", "Succeeded", "RolledBack", "RollbackFailed", "Failed"})


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that may happen now, and what it costs of the number of disturbances."""

    words: str  # as a story has it
    do: Callable[[Store, Json], object]  # what it writes, and what it changes in what is kept in mind
    cost: int = 0
    kind: str = ""


def agent_deeds(state: State) -> Iterator[Deed]:
    """Yield what the node sides may do next."""
    for pod in state.all("pods"):
        if is_agent(pod):
            yield from _of_agent(state, pod)


def _of_agent(state: State, pod: Json) -> Iterator[Deed]:
    node, name, phase = pod["spec"]["nodeName"], pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
    if state.body("nodes", node) is None or phase in {"Succeeded", "Failed"}:
        return
    if phase != "Running":
        yield Deed(f"the agent on {node} starts", lambda store, _: _set_pod(store, name, _running()))
        return
    task, run = state.body("nodeupgradetasks", node), pod["metadata"]["labels"]["nodeupgrade.dev/run"]
    asked = task is not None and task["spec"]["runID"] == run and task["spec"]["action"] not in {"Release", "Wait"}
    reported = (task or {}).get("status") or {}
    own = reported.get("phase", "Pending") if reported.get("runID") == run else "Pending"
    if task is None or not asked or own in TERMINAL:
        yield Deed(f"the agent on {node} ends", lambda store, _: _set_pod(store, name, {"phase": "Succeeded"}))
        yield from _host_deeds(state, node, None)
        return
    yield from _at_work(state, node, task, own)
    if own in {"Pending", "Staging", "Running"}:
        yield Deed(f"the agent on {node} dies", lambda store, _: _set_pod(store, name, {"phase": "Failed"}), 1, "agent")


def _at_work(state: State, node: str, task: Json, own: str) -> Iterator[Deed]:
    aborted = task["spec"]["action"] == "Abort"
    if own == "Pending":
        if state.ghost["host"].get(node) and task["spec"]["action"] != "Precheck":  # an earlier run is this one's now
            yield Deed(f"the agent on {node} finds a run", lambda store, ghost: _begin(store, ghost, task))
            return
        yield Deed(f"the agent on {node} reports Staging", lambda store, _: report(store, node, phase="Staging"))
        nonsense = [{"reason": "Odd", "check": f"invented-{n}", "accepted": True} for n in range(17)]
        yield Deed(
            f"the agent on {node} reports 17 accepted findings of checks that it has invented",
            lambda store, _: report(store, node, phase="Staging", hazards=nonsense), 1, "nonsense",
        )  # fmt: skip
    elif own == "Staging":
        if aborted:
            yield Deed(f"the agent on {node} stops", lambda store, _: _end(store, node, "Failed", "Aborted"))
        elif task["spec"]["action"] == "Precheck":
            yield Deed(f"the agent on {node} reports Prechecked", lambda store, _: _end(store, node, "Prechecked", ""))
        else:
            yield Deed(f"the agent on {node} hands over", lambda store, ghost: _begin(store, ghost, task))
            yield Deed(f"the agent on {node} refuses for now", lambda store, _: _refuse(store, node), 1, "refuse")
    else:
        yield from _host_deeds(state, node, task)


def _host_deeds(state: State, node: str, task: Json | None) -> Iterator[Deed]:
    """Yield how the run on a host may end; without a task, nobody hears of it."""
    run = state.ghost["host"].get(node)
    if not run:
        if task is not None:  # it ended while nobody listened
            phase = "Succeeded" if _version(state, node) == task["spec"]["toVersion"] else "RolledBack"
            yield Deed(f"{node} {_WORDS[phase]}", lambda store, _: _end(store, node, phase, ""))
        return
    good = task is None or task["spec"]["action"] != "Abort"
    if good:
        yield Deed(f"{node} succeeds", lambda store, ghost: _succeed(store, ghost, node, task))
    yield Deed(
        f"{node} rolls back", lambda store, ghost: _fall_back(store, ghost, node, "RolledBack", task),
        1 if good else 0, "fail" if good else "",
    )  # fmt: skip
    yield Deed(
        f"{node} cannot roll back", lambda store, ghost: _fall_back(store, ghost, node, "RollbackFailed", task),
        1, "broken",
    )  # fmt: skip


_WORDS = {"Succeeded": "succeeds", "RolledBack": "rolls back", "RollbackFailed": "cannot roll back"}


def _version(state: State, node: str) -> str:
    return str((state.body("nodes", node) or {})["status"]["nodeInfo"]["kubeletVersion"])


def _begin(store: Store, ghost: Json, task: Json) -> None:
    node = task["metadata"]["name"]
    ghost["host"] = {**ghost["host"], node: task["spec"]["runID"]}
    report(store, node, phase="Running")


def _succeed(store: Store, ghost: Json, node: str, task: Json | None) -> None:
    ghost["host"] = {**ghost["host"], node: ""}
    set_version(store, node, "v1.33.13")
    if task is not None:
        _end(store, node, "Succeeded", "Succeeded")


def _fall_back(store: Store, ghost: Json, node: str, phase: str, task: Json | None) -> None:
    ghost["host"] = {**ghost["host"], node: ""}
    if task is not None:
        _end(store, node, phase, "KubeletDidNotStart")


def _refuse(store: Store, node: str) -> None:
    report(store, node, phase="Refused", reason="PodInTransition", finishedAt=timestamp(store.utcnow()))


def _end(store: Store, node: str, phase: str, reason: str) -> None:
    undone = "Done" if phase == "Succeeded" else "Undone"
    now = timestamp(store.utcnow())
    steps = [{"name": step, "result": undone, "startedAt": now, "finishedAt": now} for step in ("stop-kubelet",)]
    touched = {} if phase in {"Failed", "Prechecked"} else {"steps": steps}
    report(store, node, phase=phase, reason=reason, finishedAt=now, **touched)


def report(store: Store, node: str, **status: object) -> None:
    """Write a task's status, as its agent does."""
    task = done(store.get(TASKS, node))
    run, before = task["spec"]["runID"], task.get("status") or {}
    kept = {"startedAt": before["startedAt"]} if before.get("runID") == run and "startedAt" in before else {}
    hazards = {"hazards": before["hazards"]} if before.get("runID") == run and "hazards" in before else {}
    own: Json = {"startedAt": timestamp(store.utcnow()), **kept, **hazards, "runID": run, **status}
    done(store.replace_status(TASKS, node, own))


def set_version(store: Store, node: str, version: str) -> None:
    """Let a kubelet of another version run."""
    body = done(store.get(NODES, node))
    info = {**body["status"]["nodeInfo"], "kubeletVersion": version}
    done(store.replace_status(NODES, node, {**body["status"], "nodeInfo": info}))


def _set_pod(store: Store, name: str, status: Json) -> None:
    done(store.replace_status(AGENTS, name, status))


def _running() -> Json:
    state = {"running": {"startedAt": timestamp(NOW)}}
    return {
        "phase": "Running",
        "containerStatuses": [
            {"name": AGENT_CONTAINER, "containerID": "containerd://a", "state": state, "restartCount": 0}
        ],
    }
