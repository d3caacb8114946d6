"""What must hold of every single write of the operator, whatever has happened before.

Each rule sees a write, the objects right before it, and those that the step began with. It returns what is wrong. The
names say which promise of ``docs/design.md`` a rule is about.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.duration import parse_duration
from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.task.run_id import kind_of
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION
from nodeupgrade.api.values import RunKind
from tests.model import adapter
from tests.model.canonical import PRESENT, Key
from tests.model.liveness import is_over
from tests.model.store import Write
from tests.model.worlds import World

TARGET = "v1.33.13"
BAD = frozenset({"Failed", "RolledBack", "RollbackFailed"})
Objects = Mapping[Key, Json]


@dataclass(frozen=True, slots=True)
class Look:
    """One write, and what it is judged by."""

    world: World
    start: Objects  # as the step began
    objects: Objects  # right before the write
    write: Write
    ghost: Json
    late: bool  # whether a former leader has sent it

    @property
    def before(self) -> Json:
        return self.write.before or {}

    @property
    def after(self) -> Json:
        return self.write.after or {}

    def get(self, plural: str, name: str) -> Json | None:
        """Return an object as it was right before the write."""
        return self.objects.get((plural, None, name))

    def started_with(self, plural: str, name: str) -> Json | None:
        """Return an object as the step has read it."""
        return self.start.get((plural, None, name))

    def all(self, plural: str) -> list[Json]:
        """Return all objects of a kind."""
        return [body for key, body in self.objects.items() if key[0] == plural]

    def upgrade_of(self, uid: str) -> Json | None:
        """Return the NodeUpgrade with a UID."""
        return next((each for each in self.all("nodeupgrades") if each["metadata"]["uid"] == uid), None)


def taken(look: Look) -> frozenset[str]:
    """Return the nodes that get a slot by this write."""
    if look.write.key[0] != "nodeupgrades":
        return frozenset()
    return adapter.slots(look.after) - adapter.slots(look.before)


def taken_to_upgrade(look: Look) -> frozenset[str]:
    """Return those of these nodes that are to be upgraded: a plan, which changes nothing, waits for little."""
    records = adapter.records(look.after)
    return frozenset(node for node in taken(look) if kind_of(records[node]["run"]) is RunKind.UPGRADE)


def budget(look: Look) -> Iterator[str]:
    if not (new := taken_to_upgrade(look)):
        return
    strategy = look.before["spec"].get("strategy") or {}
    flying, most = adapter.slots(look.after), strategy.get("maxConcurrent", 1)
    if len(flying) > most:
        yield f"{len(flying)} nodes in flight, and {most} may be"
    down = {node["metadata"]["name"] for node in look.all("nodes") if selects(look.before, node) and _is_down(node)}
    if len(flying | down) > strategy.get("maxUnavailable", most + 1) and new - down:
        yield f"{len(flying | down)} nodes unavailable"


def one_holder(look: Look) -> Iterator[str]:
    for node in sorted(taken(look)):
        for other in look.all("nodeupgrades"):
            if other["metadata"]["name"] != look.write.key[2] and node in adapter.slots(other):
                yield f"{node} has a slot of {other['metadata']['name']} and gets one of {look.write.key[2]}"


def claims_are_free(look: Look) -> Iterator[str]:
    """A task changes hands only while no other rollout that may still touch the node has a slot for it."""
    key, after = look.write.key, look.write.after
    if key[0] != "nodeupgradetasks" or after is None:
        return
    uid = after["spec"]["upgradeRef"]["uid"]
    if uid == look.before.get("spec", {}).get("upgradeRef", {}).get("uid"):
        return
    for other in look.all("nodeupgrades"):
        if other["metadata"]["uid"] != uid and key[2] in adapter.slots(other) and not is_over(other):
            yield f"{key[2]} has a slot of {other['metadata']['name']} and is claimed by another rollout"


def record_stays(look: Look) -> Iterator[str]:
    """What is on record of a slot never changes."""
    if look.write.key[0] != "nodeupgrades" or look.write.after is None:
        return
    after = adapter.records(look.after)
    for node, slot in adapter.records(look.before).items():
        now = after.get(node, slot)
        if changed := [each for each in ("uid", "wave", "run") if slot.get(each) != now.get(each)]:
            yield f"the slot of {node} has another {', '.join(changed)}"


def begun_waves(look: Look) -> Iterator[tuple[str, int, list[Json]]]:
    """Yield the nodes whose slots begin a wave, with its index and all waves."""
    for node in sorted(taken_to_upgrade(look)):
        wave = _wave(look, node)
        if wave is None or wave in look.ghost["opened"].get(_uid(look), {}):
            continue
        waves = look.before["spec"].get("waves") or []
        yield node, next((index for index, each in enumerate(waves) if each["name"] == wave), len(waves)), waves


def approval(look: Look) -> Iterator[str]:
    for node, index, waves in begun_waves(look):
        if index < len(waves) and waves[index].get("approval") == "Manual" and not approved(look, waves[index]["name"]):
            yield f"{node} of wave {waves[index]['name']} gets a slot, and nobody has approved that wave"


def soak(look: Look) -> Iterator[str]:
    for node, index, waves in begun_waves(look):
        if index and (until := soaking(look, waves[index - 1])):
            yield f"{node} of a later wave gets a slot, and wave {waves[index - 1]['name']} soaks until {until}"


def approved(look: Look, wave: str) -> bool:
    """Report whether a wave was approved when the step began."""
    upgrade = look.started_with("nodeupgrades", look.write.key[2]) or {}
    annotation = (upgrade["metadata"].get("annotations") or {}).get(APPROVE_ANNOTATION, "")
    return wave in annotation.split(",") or wave in upgrade["spec"].get("approvedWaves", ())


def soaking(look: Look, wave: Json) -> str:
    """Return until when a wave soaks; empty if it does not."""
    ended = look.ghost["ended"].get(_uid(look), {}).get(wave["name"])
    if ended is None:
        return ""
    until = datetime.fromisoformat(ended) + (parse_duration(wave["soak"]) if "soak" in wave else timedelta())
    return timestamp(until) if until > PRESENT + timedelta(seconds=60) else ""


def failures_count(look: Look) -> Iterator[str]:
    failed = look.ghost["failed"].get(_uid(look), {})
    limit = (look.before.get("spec", {}).get("strategy") or {}).get("failureThreshold", 1)
    if (new := taken_to_upgrade(look)) and len(failed) >= limit:
        yield f"{', '.join(sorted(new))} gets a slot although {len(failed)} failed, which nobody has retried"
    if look.write.key[0] == "nodeupgrades" and look.write.after and succeeded(look.after) and failed:
        yield f"it has succeeded, and {len(failed)} failed"
    if look.write.key[0] == "nodeupgrades" and look.write.call["verb"] == "status":
        status = look.after["status"]
        if status.get("failed", 0) < len(failed) - len(adapter.slots(look.after)):
            yield f"{status.get('failed', 0)} failed according to the status, and {len(failed)} did"


def slot_before_touch(look: Look) -> Iterator[str]:
    uid, node = _touches(look)
    if not uid or (upgrade := look.upgrade_of(uid)) is None:
        return
    if node not in adapter.slots(upgrade):
        yield f"{node} is touched for {upgrade['metadata']['name']} and has no slot on record"


def slot_for_upgrade(look: Look) -> Iterator[str]:
    uid, node = _touches(look)
    if not uid or (upgrade := look.upgrade_of(uid)) is None:
        return
    if kind_of(adapter.records(upgrade).get(node, {}).get("run", "")) is RunKind.PRECHECK:
        yield f"{node} is touched for {upgrade['metadata']['name']}, and took its slot to be examined"


def run_keeps_slot(look: Look) -> Iterator[str]:
    if look.write.key[0] != "nodeupgrades" or look.write.after is None:
        return
    for node in sorted(adapter.slots(look.before) - adapter.slots(look.after)):
        run = look.ghost["host"].get(node) or ""
        if look.ghost["lost"].get(node) == run:  # the Node has registered only afterwards
            continue
        if run.startswith(_uid(look)[:8]) and look.get("nodes", node) is not None:
            yield f"{node} loses its slot, and its run goes on"


def one_run(look: Look) -> Iterator[str]:
    uid, node = _touches(look)
    run = look.ghost["host"].get(node) or ""
    # Only an agent on the node can see that a run goes on that was given up. It attends to it first.
    if uid and run and not run.startswith(uid[:8]) and look.ghost["lost"].get(node) != run and not believed_over(look):
        yield f"{node} is touched, and another NodeUpgrade's run goes on there"


def believed_over(look: Look) -> bool:
    """Report whether nothing holds the node that is written any more, although a run goes on whose rollout is gone.

    A person has removed that rollout's cordon, as the operator asks for where nobody can tell, or the Node with it.
    """
    active = {each["metadata"]["uid"][:8] for each in look.all("nodeupgrades") if not is_over(each)}
    run, node = look.ghost["host"].get(look.write.key[2]) or "", look.get("nodes", look.write.key[2])
    return bool(run) and run[:8] not in active and (node is None or adapter.cordoned_by(node)[:8] != run[:8])


def own_cordon(look: Look) -> Iterator[str]:
    if look.write.key[0] != "nodes" or not _unschedulable(look.before) or _unschedulable(look.after):
        return
    if look.write.after is None:
        return
    node = look.write.key[2]
    if not adapter.cordoned_by(look.before):
        yield f"{node} is uncordoned, and somebody else had cordoned it"
    if look.late:  # it may undo its own cordon if nobody has written the Node since
        return
    run, task = look.ghost["host"].get(node), look.get("nodeupgradetasks", node)
    begun = task is not None and task["spec"]["action"] != "Wait" and look.ghost["untold"].get(node) != run
    if run and (begun or not believed_over(look)):
        yield f"{node} is uncordoned, and its run goes on"


def gates_asked(look: Look) -> Iterator[str]:
    uid, node = _touches(look)
    upgrade = None if look.late else look.upgrade_of(uid)
    if upgrade is None:
        upgrade = look.before if taken(look) and not look.late else None
    if upgrade is None:
        return
    for each in sorted(taken(look)) or [node]:
        task = look.get("nodeupgradetasks", each)
        if task is None and not taken(look):
            continue  # the task of a run in progress is lost, and the run is taken up whatever gates say
        if task is None or task["spec"].get("action") == "Wait":
            began = look.started_with("nodeupgrades", upgrade["metadata"]["name"])
            if why := closed(began or upgrade, look.started_with("nodes", each), claimed=task is not None):
                yield f"{each} is begun with although {why}"


def closed(upgrade: Json, node: Json | None, *, claimed: bool) -> str:
    """Return why no node, or not this one, may be begun with; empty if it may."""
    if adapter.is_paused(upgrade):
        return "the rollout is paused"
    if "deletionTimestamp" in upgrade["metadata"] and claimed:
        return "the NodeUpgrade is being deleted"
    if node is not None and claimed and not selects(upgrade, node):
        return "it is not selected"
    return ""


def honest_success(look: Look) -> Iterator[str]:
    if look.write.key[0] != "nodeupgrades" or not succeeded(look.after) or succeeded(look.before):
        return
    if look.late:  # what a former leader has read is not known
        return
    nodes = [body for key, body in look.start.items() if key[0] == "nodes"]
    left = [n for n in nodes if selects(look.after, n) and n["status"]["nodeInfo"]["kubeletVersion"] != TARGET]
    told = look.after["status"]["counts"].get("skipped", 0) + look.after["status"]["counts"].get("refused", 0)
    if len(left) > told:
        names = ", ".join(each["metadata"]["name"] for each in left)
        yield f"it has succeeded, {names} is not upgraded, and {told} skipped"


def no_skip_for_rivals(look: Look) -> Iterator[str]:
    if look.write.key[0] != "nodeupgrades" or look.write.after is None:
        return
    now, before = (each.get("status") or {} for each in (look.after, look.before))
    if now.get("phase") == "Queued" or _skipped(now) <= _skipped(before):
        return
    active = {each["metadata"]["uid"] for each in look.all("nodeupgrades") if not is_over(each)} - {_uid(look)}
    cordoned = [node for node in look.all("nodes") if selects(look.after, node) and _unschedulable(node)]
    if cordoned and all(adapter.cordoned_by(node) in active for node in cordoned):
        yield f"{cordoned[0]['metadata']['name']} is skipped for the cordon of another rollout that is at work on it"


def _skipped(status: Json) -> int:
    return int((status.get("skips") or {}).get("CordonedByOthers", 0))


RULES: Mapping[str, Callable[[Look], Iterator[str]]] = {
    "P3 never more in flight than the budget": budget,
    "P3 no node is touched before its slot is on record": slot_before_touch,
    "P3 a run keeps its slot": run_keeps_slot,
    "no slot of a plan becomes an upgrade": slot_for_upgrade,
    "P4 no gate is passed": gates_asked,
    "P6 only our cordons are undone, and after the run": own_cordon,
    "one holder": one_holder,
    "one holder of a claim": claims_are_free,
    "a slot is a record": record_stays,
    "one run at a time on a node": one_run,
    "no wave begins without its approval": approval,
    "no wave begins before the one before has soaked": soak,
    "failures count until a retry": failures_count,
    "success means upgraded": honest_success,
    "no rollout skips another's node": no_skip_for_rivals,
}


def remembered(look: Look) -> Json:
    """Return what is kept in mind after a write."""
    ghost, uid = look.ghost, _uid(look)
    if look.write.key[0] == "nodeupgrades" and (new := taken_to_upgrade(look)):
        waves = {wave: 1 for node in new if (wave := _wave(look, node)) is not None}
        ghost = {**ghost, "opened": {**ghost["opened"], uid: {**ghost["opened"].get(uid, {}), **waves}}}
    for failure in _new_failures(look):
        ghost = _given_up(ghost, failure["node"])
        failed = {**ghost["failed"].get(uid, {}), failure["uid"]: failure.get("wave", "")}
        ended = {**ghost["ended"].get(uid, {}), failure.get("wave") or "remainder": timestamp(PRESENT)}
        ghost = {**ghost, "failed": {**ghost["failed"], uid: failed}, "ended": {**ghost["ended"], uid: ended}}
    if look.write.key[0] == "nodeupgradetasks" and (verdict := _new_verdict(look)) not in {"", "Prechecked"}:
        task = look.after["spec"]
        uid, wave = task["upgradeRef"]["uid"], task.get("wave") or "remainder"
        ended = {**ghost["ended"].get(uid, {}), wave: timestamp(PRESENT)}
        ghost = {**ghost, "ended": {**ghost["ended"], uid: ended}}
        if task["verdict"]["reason"] == "NodeLost":
            ghost = _given_up(ghost, look.write.key[2])
        if verdict in BAD:
            failed = {**ghost["failed"].get(uid, {}), task["nodeUID"]: wave}
            ghost = {**ghost, "failed": {**ghost["failed"], uid: failed}}
    if look.write.key[0] == "nodeupgradetasks" and look.write.after is None:
        node = look.write.key[2]
        ghost = {**ghost, "untold": {**ghost["untold"], node: run}} if (run := ghost["host"].get(node)) else ghost
    if look.write.key[0] == "nodeupgrades" and look.write.after is None:
        gone = look.before["metadata"]["uid"]
        kept = {word: {k: v for k, v in ghost[word].items() if k != gone} for word in ("failed", "ended", "opened")}
        ghost = {**ghost, **kept}
    return ghost


def _given_up(ghost: Json, node: str) -> Json:
    run = ghost["host"].get(node)
    return {**ghost, "lost": {**ghost["lost"], node: run}} if run else ghost


def _new_failures(look: Look) -> list[Json]:
    """Return the failures that a status puts on record and that no task shows: of Nodes that were lost."""
    if look.write.key[0] != "nodeupgrades" or look.write.call["verb"] != "status":
        return []
    known = {each.get("uid") for each in (look.before.get("status") or {}).get("failures", ())}
    shown = {each["spec"]["nodeUID"] for each in look.all("nodeupgradetasks")}
    listed = look.after["status"].get("failures", ())
    lost = [each for each in listed if each.get("outcome") in BAD and each["reason"] == "NodeLost"]
    return [each for each in lost if each.get("uid") and each["uid"] not in known | shown]


def _new_verdict(look: Look) -> str:
    def of(task: Json) -> tuple[str, str]:
        verdict = (task.get("spec") or {}).get("verdict") or {}
        return verdict.get("runID", ""), verdict.get("outcome", "")

    after = of(look.after)
    return after[1] if after != of(look.before) and after[0] == look.after.get("spec", {}).get("runID") else ""


def succeeded(upgrade: Json) -> bool:
    """Report whether the status says that the rollout has succeeded."""
    conditions = (upgrade.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Succeeded" and each["status"] == "True" for each in conditions)


def selects(upgrade: Json, node: Json) -> bool:
    """Report whether a NodeUpgrade of the model selects a node."""
    nodes, name = upgrade["spec"]["nodes"], node["metadata"]["name"]
    if name in (nodes.get("exclude") or {}).get("names", ()):
        return False
    labels = (nodes.get("selector") or {}).get("matchLabels")
    own = node["metadata"].get("labels") or {}
    return name in nodes.get("names", ()) or (labels is not None and all(own.get(k) == v for k, v in labels.items()))


def _touches(look: Look) -> tuple[str, str]:
    """Return for which NodeUpgrade a write touches which node: it cordons it or starts its run.

    A former leader may cordon a node that nobody has written since, see docs/decisions/leader-election.md.
    """
    plural, _, name = look.write.key
    if (
        plural == "nodes"
        and not look.late
        and look.write.after
        and not _unschedulable(look.before)
        and _unschedulable(look.after)
    ):
        return adapter.cordoned_by(look.after), name
    if plural == "nodeupgradetasks" and look.write.after:
        before, after = (each.get("spec", {}) for each in (look.before, look.after))
        if after.get("action") == "Upgrade" and before.get("action") != "Upgrade":
            return after["upgradeRef"]["uid"], name
    return "", ""


def _wave(look: Look, node: str) -> str | None:
    """Return the wave of a node that gets a slot: that of its claim, else the one that selects it."""
    if not (waves := look.before["spec"].get("waves")):
        return None
    if (claimed := adapter.wave_of(look.before, look.get("nodeupgradetasks", node))) is not None:
        return claimed
    labels = ((look.get("nodes", node) or {}).get("metadata") or {}).get("labels") or {}
    chosen = (w["name"] for w in waves if all(labels.get(k) == v for k, v in _labels(w).items()))
    return next(chosen, "remainder")


def _labels(wave: Json) -> dict[str, str]:
    return dict((wave.get("selector") or {}).get("matchLabels") or {})


def _uid(look: Look) -> str:
    return str((look.after or look.before)["metadata"]["uid"])


def _unschedulable(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _is_down(node: Json) -> bool:
    ready = next((c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"), "")
    return _unschedulable(node) or ready != "True"
