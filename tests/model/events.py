"""Everything that people, machines and other tools may do meanwhile.

What undoes or answers something else, such as a Node that registers anew or an approval that is asked for, costs
nothing; everything else counts as a disturbance.
"""

from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import ABANDON_ANNOTATION, APPROVE_ANNOTATION, PAUSE_ANNOTATION, RETRY_ANNOTATION
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, Resource
from tests.model.adapter import cordoned_by, is_agent, is_paused, slots
from tests.model.nodeside import Deed, set_version
from tests.model.state import State
from tests.model.store import Store, done
from tests.model.worlds import World, add_node, add_pod
from tests.scenario.rollout.harness import upgrade_object

MOST_RETRIES = 1
LONG_VERSION = "v1.30.14-" + "x" * 70
TAINT: Json = {"key": "gpu", "effect": "NoExecute"}


def event_deeds(world: World, state: State) -> Iterator[Deed]:
    """Yield all that may happen now."""
    for name in world.labels:
        if (node := state.body("nodes", name)) is not None:
            yield from _on_node(state, name, node)
        elif name in state.ghost["gone"]:
            yield from _back(world, name)
        task = state.body("nodeupgradetasks", name)
        if task is not None:
            yield _deleted_task(name, task)
    for name in world.specs:
        upgrade = state.body("nodeupgrades", name)
        yield from (_on_upgrade(world, state, name, upgrade) if upgrade is not None else (_applied(world, name),))


def _on_node(state: State, name: str, node: Json) -> Iterator[Deed]:
    spec, labels = node["spec"], node["metadata"]["labels"]
    yield Deed(f"{name} is deleted", lambda store, ghost: _delete_node(store, ghost, name), 1, "node")
    if labels.get("canary") or labels.get("pool"):
        lost = "canary" if labels.get("canary") else "pool"
        yield _merge(NODES, name, {"metadata": {"labels": {lost: None}}}, f"somebody labels {name} {lost}=", 1, "label")
    if spec.get("taints"):
        yield _merge(NODES, name, {"spec": {"taints": None}}, f"somebody removes the taint of {name}")
    else:
        yield _merge(NODES, name, {"spec": {"taints": [TAINT]}}, f"somebody sets a taint on {name}", 1, "taint")
    if not spec.get("unschedulable"):
        yield _merge(NODES, name, {"spec": {"unschedulable": True}}, f"somebody cordons {name}", 1, "cordon")
    else:
        ours = 1 if cordoned_by(node) else 0
        words = f"somebody uncordons {name}"
        yield _merge(NODES, name, {"spec": {"unschedulable": None}}, words, ours, "cordon" if ours else "")
    held = f"held-on-{name}"
    if state.body("pods", held, "default") is None:
        note = {"nodeupgrade.dev/hold": "busy"}
        words = f"a pod that holds it is scheduled on {name}"
        yield Deed(words, lambda store, _: add_pod(store, held, name, note), 1, "hold")
    else:
        where = PODS.within("default")
        yield Deed(f"the pod that holds {name} ends", lambda store, _: done(store.delete(where, held)))
    if node["status"]["nodeInfo"]["kubeletVersion"] == "v1.30.14":
        words = f"the kubelet of {name} reports a version of 79 characters"
        yield Deed(words, lambda store, _: set_version(store, name, LONG_VERSION), 1, "version")


def _delete_node(store: Store, ghost: Json, name: str) -> None:
    done(store.delete(NODES, name))
    for key, body in [*store.bodies().items()]:
        if key[0] == "pods" and body["spec"]["nodeName"] == name and is_agent(body):
            done(store.delete(PODS.within(str(key[1])), key[2]))
    ghost["gone"] = {**ghost["gone"], name: 1}


def _back(world: World, name: str) -> Iterator[Deed]:
    def again(store: Store, ghost: Json) -> None:
        add_node(store, name, world.labels[name], ghost.get("versions", {}).get(name, "v1.30.14"))
        _forget(ghost, name)

    def replaced(store: Store, ghost: Json) -> None:
        add_node(store, name, {})
        ghost["host"] = {**ghost["host"], name: ""}
        _forget(ghost, name)

    yield Deed(f"{name} registers again", again)
    yield Deed(f"{name} is another machine, and registers without labels", replaced)


def _forget(ghost: Json, name: str) -> None:
    ghost["gone"] = {each: known for each, known in ghost["gone"].items() if each != name}


def _deleted_task(name: str, task: Json) -> Deed:
    def delete(store: Store, ghost: Json) -> None:
        uid, node = task["spec"]["upgradeRef"]["uid"], task["spec"]["nodeUID"]
        known = [body for key, body in store.bodies().items() if key[0] == "nodeupgrades"]
        listed = [f["uid"] for u in known for f in (u.get("status") or {}).get("failures", ()) if "outcome" in f]
        failed = {each: wave for each, wave in ghost["failed"].get(uid, {}).items() if each != node or each in listed}
        ghost["failed"] = {**ghost["failed"], uid: failed}
        done(store.delete(TASKS, name))

    return Deed(f"somebody deletes the task of {name}", delete, 1, "task")


def _on_upgrade(world: World, state: State, name: str, upgrade: Json) -> Iterator[Deed]:
    of = "" if len(world.specs) == 1 else f" of {name}"
    annotations, spec = upgrade["metadata"].get("annotations") or {}, upgrade["spec"]
    status = upgrade.get("status") or {}
    if "deletionTimestamp" in upgrade["metadata"]:
        if ABANDON_ANNOTATION not in annotations:
            yield _annotate(name, "abandon", upgrade["metadata"]["uid"], f"its UID{of}", 1, "abandon")
        return
    yield Deed(f"somebody deletes NodeUpgrade {name}", lambda store, _: done(store.delete(UPGRADES, name)), 1, "delete")
    yield Deed(
        f"somebody abandons and deletes NodeUpgrade {name}", lambda store, _: _abandon(store, name), 1, "abandon"
    )
    if is_paused(upgrade):
        yield _annotate(name, "pause", None, of)
    else:
        yield _annotate(name, "pause", "true", f"true{of}", 1, "pause")
    if any(wave.get("approval") for wave in spec.get("waves", ())) and APPROVE_ANNOTATION not in annotations:
        due = status.get("phase") == "AwaitingApproval"
        yield _annotate(name, "approve", "production", f"production{of}", 0 if due else 1, "" if due else "approve")
    if (retries := state.ghost["retries"]) < MOST_RETRIES:
        due = bool(state.ghost["failed"].get(upgrade["metadata"]["uid"])) or status.get("phase") == "Failed"
        yield _retry(name, f"token-{retries}", of, 0 if due else 1)
    if spec.get("action", "Run") == "Run" and "completedAt" not in status:
        words = f"somebody sets action to Abort{of}"
        yield _merge(UPGRADES, name, {"spec": {"action": "Abort"}}, words, 1, "abort")
    if spec.get("action") == "Plan":
        words, due = f"somebody sets action to Run{of}", status.get("phase") == "Planned"
        yield _merge(UPGRADES, name, {"spec": {"action": "Run"}}, words, 0 if due else 1, "" if due else "run")
    yield from _edits(name, spec, of, slots(upgrade))


def _edits(name: str, spec: Json, of: str, flying: frozenset[str]) -> Iterator[Deed]:
    concurrent = (spec.get("strategy") or {}).get("maxConcurrent", 1)
    other = 2 if concurrent == 1 else 1
    words = f"somebody sets strategy.maxConcurrent to {other}{of}"
    yield _merge(UPGRADES, name, {"spec": {"strategy": {"maxConcurrent": other}}}, words, 1, "edit")
    if flying and not spec["nodes"].get("exclude"):
        node = min(flying)
        words = f"somebody sets nodes.exclude.names to [{node}]{of}"
        yield _merge(UPGRADES, name, {"spec": {"nodes": {"exclude": {"names": [node]}}}}, words, 1, "exclude")


def _abandon(store: Store, name: str) -> None:
    uid = done(store.get(UPGRADES, name))["metadata"]["uid"]
    done(store.merge(UPGRADES, name, {"metadata": {"annotations": {ABANDON_ANNOTATION: uid}}}))
    done(store.delete(UPGRADES, name))


def _applied(world: World, name: str) -> Deed:
    def apply(store: Store, ghost: Json) -> None:
        done(store.create(UPGRADES, upgrade_object(name, **world.specs[name])))

    return Deed(f"somebody applies NodeUpgrade {name}", apply)


def _retry(name: str, token: str, of: str, cost: int) -> Deed:
    def retry(store: Store, ghost: Json) -> None:
        upgrade = done(store.get(UPGRADES, name))
        ghost["retries"] += 1
        ghost["failed"] = {uid: f for uid, f in ghost["failed"].items() if uid != upgrade["metadata"]["uid"]}
        done(store.merge(UPGRADES, name, {"metadata": {"annotations": {RETRY_ANNOTATION: token}}}))

    return Deed(f"somebody annotates retry={token}{of}", retry, cost, "retry" if cost else "")


def _annotate(name: str, word: str, value: str | None, told: str, *why: int | str) -> Deed:
    key = {"pause": PAUSE_ANNOTATION, "approve": APPROVE_ANNOTATION, "abandon": ABANDON_ANNOTATION}[word]
    patch = {"metadata": {"annotations": {key: value}}}
    return _merge(UPGRADES, name, patch, f"somebody annotates {word}={told}", *why)


def _merge(resource: Resource, name: str, patch: Json, words: str, *why: int | str) -> Deed:
    def merge(store: Store, _: Json) -> None:
        done(store.merge(resource, name, patch, field_manager="kubectl"))

    cost, kind = why or (0, "")
    return Deed(words, merge, int(cost), str(kind))
