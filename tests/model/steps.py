"""All transitions of a state: steps of the controllers, of the node sides, events, crashes, other leaders, and time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, Resource
from nodeupgrade.errors import NodeUpgradeError
from tests.model.adapter import CORDON_ANNOTATION, TERM, Operator, is_abandoned, is_agent, slots
from tests.model.canonical import LEADER, Key, Object, interned
from tests.model.events import event_deeds
from tests.model.invariants import RULES, Look, remembered
from tests.model.liveness import is_over
from tests.model.nodeside import Deed, agent_deeds
from tests.model.state import GHOST, LATE, NOT_SERVED, State, collect, later, make_state, settle
from tests.model.store import Store, Write, done
from tests.model.worlds import World

LADDER = (30, 90, 210, 330, 690, 1080, 1860, 3690, 7290, 25230)
"""Seconds after which something may be due, when nothing else is left to do."""

MOST_KNOWN = 40_000
"""How many results of calls are kept."""

RESOURCES = {each.plural: each for each in (NODES, PODS, TASKS, UPGRADES)}


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition."""

    words: str
    state: State
    cost: int = 0
    kind: str = ""  # which kind of disturbance it is
    progress: bool = False  # whether it happens by itself once nothing disturbs any more
    wrote: bool = False  # whether a controller wrote anything
    told: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str], ...] = ()  # rules that are broken, and how


@dataclass(frozen=True, slots=True)
class Done:
    """What one call of a controller has come to: the writes, and what is kept in mind after each."""

    transition: Transition
    writes: tuple[Write, ...]
    ghosts: tuple[Json, ...]


@dataclass(slots=True)
class Model:
    """One world, with the real operator in it."""

    world: World
    ignored: frozenset[str] = frozenset()  # rules that are not asked
    operator: Operator = field(init=False)
    steps: int = 0
    _known: dict[tuple[tuple[int, ...], str], Done] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operator = Operator(self.world.server)

    def transitions(self, state: State, *, disturbed: bool) -> Iterator[Transition]:
        """Yield all transitions of a state; without ``disturbed``, only those that cost nothing."""
        moved, calls = False, [*self.calls(state)]
        for words, call in calls:
            done_so = self.called(state, words, call)
            moved |= done_so.transition.state.key != state.key
            yield done_so.transition
            if disturbed:
                yield from self.interrupted(state, done_so)
        for deed in agent_deeds(state):
            moved |= not deed.cost
            if (disturbed or not deed.cost) and self._may_happen(deed):
                yield self.deed(state, deed, progress=not deed.cost)
        if LATE in state.objects:
            yield self.arrives(state)
        for deed in event_deeds(self.world, state):
            if (disturbed or not deed.cost) and self._may_happen(deed):
                yield self.deed(state, deed)
        if not moved and (passed := self.passed(state)) is not None:
            yield passed
        if disturbed and self._happens("outage") and self.passable(state):
            yield Transition("seven hours pass", later(state, LADDER[-1]), 1, "outage")

    def passable(self, state: State) -> bool:
        """Report whether an outage is worth a look: something is in flight or claimed."""
        return any(key[0] == "nodeupgradetasks" for key in state.objects)

    def _may_happen(self, deed: Deed) -> bool:
        return not deed.kind or not self.world.kinds or deed.kind in self.world.kinds

    def calls(self, state: State) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the calls of controllers that may come next."""
        operator = self.operator
        for name in self.world.specs:
            if (upgrade := state.body("nodeupgrades", name)) is None:
                continue
            yield f"reconcile {name}", lambda name=name: operator.reconcile_rollout(name)  # type: ignore[misc]
            for node in sorted(slots(upgrade)):
                yield (
                    f"reconcile {node} of {name}",
                    lambda name=name, node=node: operator.reconcile_node(name, node),  # type: ignore[misc]
                )
        if self._is_to_sweep(state):
            yield "sweep", operator.sweep

    def _is_to_sweep(self, state: State) -> bool:
        marked = (CORDON_ANNOTATION in (n["metadata"].get("annotations") or {}) for n in state.all("nodes"))
        return any(marked) or any(map(is_agent, state.all("pods"))) or any(_is_leftover(state))

    def called(self, state: State, words: str, call: Callable[[], None]) -> Done:
        """Let a controller be called once; what comes of it is known for a while."""
        if (known := self._known.get((state.key, words))) is None:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            known = self._known[state.key, words] = self._called(state, words, call)
        return known

    def _called(self, state: State, words: str, call: Callable[[], None]) -> Done:
        operator, store = self.operator, self.operator.store
        self.steps += 1
        operator.load(state)
        call()
        collect(store)
        ghosts, wrong = self._watch(state, store.writes, late=False)
        if operator.failed:
            wrong = [*wrong, *self._of_failure(operator.failed, store.refused)]
        objects = {**store.objects, **_kept(state.objects, ghosts, store.writes)}
        after = settle(objects, operator.memories(), state.memory)
        told = tuple(operator.told)
        made = Transition(words, after, progress=True, wrote=bool(store.writes), told=told, wrong=self._asked(wrong))
        return Done(made, tuple(store.writes), tuple(ghosts))

    def _of_failure(self, failed: str, refused: list[str]) -> list[tuple[str, str]]:
        rule = "every status is valid" if refused else "nothing fails unexpectedly"
        return [(rule, failed)]

    def _asked(self, wrong: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(each for each in wrong if each[0] not in self.ignored)

    def _watch(self, state: State, writes: list[Write], *, late: bool) -> tuple[list[Json], list[tuple[str, str]]]:
        """Judge writes one after the other; return what is kept in mind after each, and what is wrong."""
        objects, ghost, ghosts = dict(state.objects), state.ghost, list[Json]()
        wrong = list[tuple[str, str]]()
        for write in writes:
            look = Look(self.world, state.objects, objects, write, ghost, late)
            wrong += [(name, problem) for name, rule in RULES.items() for problem in rule(look)]
            ghost = remembered(look)
            ghosts.append(ghost)
            _apply(objects, write)
        return ghosts, wrong

    def interrupted(self, state: State, done_so: Done) -> Iterator[Transition]:
        """Yield what becomes of it if the operator dies before or after each write, or another one takes over."""
        writes, words = done_so.writes, done_so.transition.words
        first = 0 if state.memory and words.startswith("reconcile") else 1
        for number in range(first, len(writes) + 1):
            objects = dict(state.objects)
            for write in writes[:number]:
                _apply(objects, write)
            objects |= _kept(state.objects, done_so.ghosts[:number], writes[:number])
            known = state.memory
            if self._happens("crash"):
                after = settle(objects, dict.fromkeys(known), known)
                yield Transition(f"{words}; the operator dies after write {number}", after, 1, "crash")
            if number < len(writes) and LATE not in objects and self._happens("leader"):
                yield self._taken_over(objects, known, writes[number], f"{words}, up to write {number}")
        if not writes and state.memory and words.startswith("reconcile") and self._happens("crash"):
            yield Transition("the operator is started anew", make_state(state.objects, {}), 1, "crash")

    def _happens(self, kind: str) -> bool:
        return not self.world.kinds or kind in self.world.kinds

    def _taken_over(self, objects: dict[Key, Object], known: Mapping[str, Any], write: Write, words: str) -> Transition:
        if write.call["verb"] == "collect":
            after = settle(objects, dict.fromkeys(known), known)
            return Transition(f"{words}; another leader takes over", after, 1, "leader")
        plural, namespace, name = write.key
        body = {"metadata": {"name": "late"}, "key": [plural, namespace, name], "spec": {"nodeName": _node_of(write)}}
        pending = {**body, "call": write.call, "held": bool(write.call.get("held") or write.call["verb"] == "create")}
        state = settle({**objects, LATE: Object(pending)}, dict.fromkeys(known), known)
        older = {key: interned(key[0], each.text.replace(TERM, f"1-{LEADER}")) for key, each in state.objects.items()}
        words = f"{words}; another leader takes over, and write {plural}/{name} is still on its way"
        return Transition(words, make_state(older, {}), 1, "leader")

    def arrives(self, state: State) -> Transition:
        """Let the late write of the former leader arrive."""
        store, body = self.operator.store, state.objects[LATE].body
        store.load(state.objects)
        del store.objects[LATE]
        resource, call = _resource(body["key"]), body["call"]
        try:
            match call["verb"]:
                case "create":
                    done(store.create(resource, call["body"]))
                case "merge":
                    done(store.merge(resource, call["name"], call["body"], field_manager=call["manager"]))
                case "status":
                    done(store.replace_status(resource, call["name"], call["body"]))
                case _:
                    done(store.delete(resource, call["name"]))
        except NodeUpgradeError:
            store.load({key: each for key, each in state.objects.items() if key != LATE})
        collect(store)
        ghosts, wrong = self._watch(state, store.writes, late=True)
        objects = {**store.objects, **_kept(state.objects, ghosts, store.writes)}
        objects.pop(LATE, None)
        after = settle(objects, {}, state.memory)
        words = f"the former leader's write of {body['key'][0]}/{body['key'][2]} arrives"
        return Transition(words, after, wrong=self._asked(wrong))

    def deed(self, state: State, deed: Deed, *, progress: bool = False) -> Transition:
        """Let something happen."""
        store, ghost = self.operator.store, {**state.ghost}
        store.load(state.objects)
        try:
            deed.do(store, ghost)
        except NodeUpgradeError as error:
            return Transition(f"{deed.words}: {error}", state, deed.cost, deed.kind)
        collect(store)
        for write in store.writes:
            ghost = remembered(Look(self.world, state.objects, state.objects, write, ghost, late=True))
        wrong = [] if ghost["host"] == state.ghost["host"] else [*_slots_of_runs(state, ghost)]
        objects = {**store.objects, **_kept(state.objects, [ghost], store.writes)}
        gone = {key[2]: None for key in state.objects if key[0] == "nodeupgrades" and key not in objects}
        after = settle(objects, gone, state.memory)
        return Transition(deed.words, after, deed.cost, deed.kind, progress, wrong=self._asked(wrong))

    def one_pass(self, state: State) -> tuple[State, bool] | None:
        """Let every controller and every node side have its turn; if that changes nothing, let time pass.

        Return the state after that, and whether anything was written; None at rest.
        """
        before, wrote = state.key, False
        for words, _ in [*self.calls(state)]:
            again = dict(self.calls(state))
            if words in again:
                each = self.called(state, words, again[words]).transition
                state, wrote = each.state, wrote or each.wrote
        for deed in [each for each in agent_deeds(state) if not each.cost]:
            if deed.words in {each.words for each in agent_deeds(state)}:
                state, wrote = self.deed(state, deed).state, True
        if state.key != before:
            return state, wrote
        passed = self.passed(state)
        return None if passed is None else (passed.state, False)

    def passed(self, state: State) -> Transition | None:
        """Return the state after so much time that something is due; None if nothing ever is."""
        for seconds in LADDER:
            after = later(state, seconds)
            if after.key != state.key and any(
                self.called(after, words, call).transition.state.key != after.key for words, call in self.calls(after)
            ):
                return Transition(f"{seconds} seconds pass", after, progress=True)
        return None


def _is_leftover(state: State) -> Iterator[bool]:
    """Yield whether the Node of a task or the rollout for which it was made is gone, or has ended."""
    active = {each["metadata"]["uid"] for each in state.all("nodeupgrades") if not is_over(each)}
    for task in state.all("nodeupgradetasks"):
        yield task["spec"]["upgradeRef"]["uid"] not in active or state.body("nodes", task["metadata"]["name"]) is None


def _slots_of_runs(state: State, ghost: Json) -> Iterator[tuple[str, str]]:
    """A run that begins has a slot, unless its NodeUpgrade is abandoned or gone."""
    upgrades = {upgrade["metadata"]["uid"]: upgrade for upgrade in state.all("nodeupgrades")}
    for node, run in ghost["host"].items():
        upgrade = upgrades.get(run[:8])
        begins = bool(run) and run != state.ghost["host"].get(node)
        if begins and upgrade is not None and not is_abandoned(upgrade) and node not in slots(upgrade):
            yield "P3 a run keeps its slot", f"a run begins on {node}, which has no slot"


def _apply(objects: dict[Key, Object], write: Write) -> None:
    if write.after is None:
        objects.pop(write.key, None)
    else:
        objects[write.key] = Object(write.after)


def _kept(before: Mapping[Key, Object], ghosts: Any, writes: Any) -> dict[Key, Object]:
    """Return what is not served: what is kept in mind, and a late write that is not void yet."""
    kept = {}
    if ghosts and ghosts[-1] != before[GHOST].body:
        kept[GHOST] = Object(ghosts[-1])
    if LATE in before and before[LATE].body["held"]:
        target = tuple(before[LATE].body["key"])
        if any(write.key == target for write in writes):
            kept[LATE] = VOID
    return kept


VOID = interned("late", '{"metadata": {"name": "void"}, "held": false}')


def _node_of(write: Write) -> str:
    spec = (write.after or write.before or {}).get("spec")
    return str(spec.get("nodeName", "")) if isinstance(spec, dict) else ""


def _resource(key: list[Any]) -> Resource:
    found = RESOURCES[key[0]]
    return found if key[1] is None else found.within(key[1])


__all__ = ["NOT_SERVED", "Model", "Store", "Transition"]
