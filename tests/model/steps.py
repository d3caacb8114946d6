"""All transitions of a state: steps of the controllers, of the node sides, events, crashes, other leaders, and time."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, Resource
from nodeupgrade.errors import NodeUpgradeError
from tests.model.adapter import CORDON_ANNOTATION, TERM, Operator, is_abandoned, is_agent, slots
from tests.model.canonical import GHOST, LATE, LEADER, UPGRADE, Key, fixed, interned
from tests.model.events import event_deeds
from tests.model.invariants import RULES, Look, remembered
from tests.model.liveness import is_over
from tests.model.nodeside import Deed, agent_deeds
from tests.model.recent import Recent
from tests.model.state import Change, Remembered, State, forget, later, make_state, settle
from tests.model.store import Write, done
from tests.model.worlds import World

LADDER = (30, 90, 210, 330, 690, 1080, 1860, 3690, 7290, 25230)
"""Seconds after which something may be due, when nothing else is left to do."""

MOST_KNOWN = 50_000
"""How many outcomes of calls are kept, at least."""

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
class Call:
    """A call of a controller."""

    words: str
    make: Callable[[], None]
    rollout: str = ""  # whose memory it uses


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call comes to wherever the operator sees the same, and remembers the same of the rollout."""

    writes: tuple[Write, ...]
    changes: tuple[Change, ...]  # what each write has made of its object
    memory: Mapping[str, Remembered | None]
    told: tuple[str, ...]
    failure: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What one call of a controller has come to: the writes, and what is kept in mind after each."""

    transition: Transition
    outcome: Outcome
    ghosts: tuple[Json, ...]


@dataclass(slots=True)
class Model:
    """One world, with the real operator in it."""

    world: World
    ignored: frozenset[str] = frozenset()  # rules that are not asked
    operator: Operator = field(init=False)
    steps: int = 0
    _known: Recent[tuple[bytes, int, str], Outcome] = field(default_factory=lambda: Recent(MOST_KNOWN))

    def __post_init__(self) -> None:
        self.operator = Operator(self.world.server)

    def forget(self) -> None:
        """Forget what calls have come to, and all objects; no state of before can be gone on from."""
        self._known.forget()
        forget()

    def transitions(self, state: State, *, disturbed: bool) -> Iterator[Transition]:
        """Yield all transitions of a state; without ``disturbed``, only those that cost nothing."""
        moved, calls = False, [*self.calls(state)]
        for call in calls:
            done_so = self.called(state, call)
            moved |= done_so.transition.state.key != state.key
            yield done_so.transition
            if disturbed:
                yield from self.interrupted(state, done_so)
        for deed in agent_deeds(state):
            moved |= not deed.cost
            if (disturbed or not deed.cost) and self._may_happen(deed):
                yield self.deed(state, deed, progress=not deed.cost)
        if state.late:
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

    def calls(self, state: State) -> Iterator[Call]:
        """Yield the calls of controllers that may come next."""
        operator = self.operator
        for name in self.world.specs:
            if (upgrade := state.body(UPGRADE, name)) is None and name not in state.memory:
                continue
            yield Call(f"reconcile {name}", lambda name=name: operator.reconcile_rollout(name), name)  # type: ignore[misc]
            for node in sorted(slots(upgrade)):
                step = lambda name=name, node=node: operator.reconcile_node(name, node)  # noqa: E731
                yield Call(f"reconcile {node} of {name}", step, name)
        if self._is_to_sweep(state):
            yield Call("sweep", operator.sweep)

    def _is_to_sweep(self, state: State) -> bool:
        marked = (CORDON_ANNOTATION in (n["metadata"].get("annotations") or {}) for n in state.all("nodes"))
        return any(marked) or any(map(is_agent, state.all("pods"))) or any(_is_leftover(state))

    def called(self, state: State, call: Call) -> Done:
        """Let a controller be called once."""
        known = state.memory.get(call.rollout)
        key = (state.served, 0 if known is None else known.number, call.words)
        if (outcome := self._known.get(key)) is None:
            outcome = self._outcome(state, call)
            self._known.keep(key, outcome)
        ghosts, wrong = self._watch(state, outcome.writes, late=False)
        written = {write.key: change for write, change in zip(outcome.writes, outcome.changes, strict=True)}
        after = settle(state, {**written, **_kept(state, ghosts, outcome.writes)}, outcome.memory)
        asked = self._asked([*wrong, *outcome.failure])
        wrote = bool(outcome.writes)
        made = Transition(call.words, after, progress=True, wrote=wrote, told=outcome.told, wrong=asked)
        return Done(made, outcome, tuple(ghosts))

    def _outcome(self, state: State, call: Call) -> Outcome:
        operator, store = self.operator, self.operator.store
        self.steps += 1
        operator.load(state, call.rollout)
        call.make()
        done(store.collect_garbage())
        remembers = operator.memory(call.rollout, state.memory.get(call.rollout)) if call.rollout else None
        failure = self._of_failure(operator.failed, store.refused) if operator.failed else []
        return Outcome(
            writes=tuple(store.writes),
            changes=tuple(fixed(write.key, write.after) for write in store.writes),
            memory={call.rollout: remembers} if call.rollout else {},
            told=tuple(operator.told),
            failure=tuple(failure),
        )

    def _of_failure(self, failed: str, refused: list[str]) -> list[tuple[str, str]]:
        rule = "every status is valid" if refused else "nothing fails unexpectedly"
        return [(rule, failed)]

    def _asked(self, wrong: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(each for each in wrong if each[0] not in self.ignored)

    def _watch(self, state: State, writes: Sequence[Write], *, late: bool) -> tuple[list[Json], list[tuple[str, str]]]:
        """Judge writes one after the other; return what is kept in mind after each, and what is wrong."""
        if not writes:
            return [], []
        start = {key: known.body for key, known in state.objects.items()}
        objects, ghost, ghosts = dict(start), state.ghost, list[Json]()
        wrong = list[tuple[str, str]]()
        for write in writes:
            look = Look(self.world, start, objects, write, ghost, late)
            wrong += [(name, problem) for name, rule in RULES.items() for problem in rule(look)]
            ghost = remembered(look)
            ghosts.append(ghost)
            if write.after is None:
                objects.pop(write.key, None)
            else:
                objects[write.key] = write.after
        return ghosts, wrong

    def interrupted(self, state: State, done_so: Done) -> Iterator[Transition]:
        """Yield what becomes of it if the operator dies before or after each write, or another one takes over."""
        outcome, words = done_so.outcome, done_so.transition.words
        writes, lost = outcome.writes, dict.fromkeys(state.memory)
        remembers = bool(state.memory) and words.startswith("reconcile")
        for number in range(len(writes) + 1):
            written = {each.key: change for each, change in zip(writes[:number], outcome.changes, strict=False)}
            changes = {**written, **_kept(state, done_so.ghosts[:number], writes[:number])}
            if (number or (remembers and writes)) and self._happens("crash"):
                after = settle(state, changes, lost)
                yield Transition(f"{words}; the operator dies after write {number}", after, 1, "crash")
            if number < len(writes) and not state.late and self._happens("leader"):
                yield self._taken_over(state, changes, writes[number:], f"{words}, up to write {number}")
        if not writes and remembers and self._happens("crash"):
            yield Transition("the operator is started anew", make_state(state.objects, {}), 1, "crash")

    def _happens(self, kind: str) -> bool:
        return not self.world.kinds or kind in self.world.kinds

    def _taken_over(
        self, state: State, changes: Mapping[Key, Change], writes: Sequence[Write], words: str
    ) -> Transition:
        lost, sent = dict.fromkeys(state.memory), [each for each in writes if each.call["verb"] != "collect"]
        if not sent:
            return Transition(f"{words}; another leader takes over", settle(state, changes, lost), 1, "leader")
        late: dict[Key, Change] = {(LATE, None, f"{n:02}"): _pending(each, n) for n, each in enumerate(sent)}
        objects = settle(state, {**changes, **late}, lost).objects
        older = {key: interned(key, each.text.replace(TERM, f"1-{LEADER}")) for key, each in objects.items()}
        plural, _, name = sent[0].key
        words = f"{words}; another leader takes over, and write {plural}/{name} is still on its way"
        return Transition(words, make_state(older, {}), 1, "leader")

    def arrives(self, state: State) -> Transition:
        """Let the next late write of the former leader arrive: it goes on with its call, unless one is refused."""
        store, first = self.operator.store, state.late[0]
        body = state.objects[first].body
        store.load(state.objects)
        resource, call, refused = _resource(body["key"]), body["call"], False
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
            store.load(state.objects)
            refused = True
        done(store.collect_garbage())
        ghosts, wrong = self._watch(state, store.writes, late=True)
        gone = dict.fromkeys(state.late if refused else [first])
        changes = {**_changes(store.writes), **_remembered(state, ghosts), **gone}
        words = f"the former leader's write of {body['key'][0]}/{body['key'][2]} arrives"
        return Transition(words, settle(state, changes, {}), wrong=self._asked(wrong))

    def deed(self, state: State, deed: Deed, *, progress: bool = False) -> Transition:
        """Let something happen."""
        store, ghost = self.operator.store, {**state.ghost}
        store.load(state.objects)
        try:
            deed.do(store, ghost)
        except NodeUpgradeError as error:
            return Transition(f"{deed.words}: {error}", state, deed.cost, deed.kind)
        done(store.collect_garbage())
        before = {key: known.body for key, known in state.objects.items()}
        for write in store.writes:
            ghost = remembered(Look(self.world, before, before, write, ghost, late=True))
        for word in ("lost", "untold"):
            ghost[word] = {node: run for node, run in ghost[word].items() if run and run == ghost["host"].get(node)}
        wrong = [] if ghost["host"] == state.ghost["host"] else [*_slots_of_runs(state, ghost)]
        changes = {**_changes(store.writes), **_kept(state, [ghost], store.writes)}
        gone = {key[2]: None for key, each in changes.items() if key[0] == UPGRADE and each is None}
        after = settle(state, changes, gone)
        return Transition(deed.words, after, deed.cost, deed.kind, progress, wrong=self._asked(wrong))

    def one_pass(self, state: State) -> tuple[State, bool] | None:
        """Let every controller and every node side have its turn; if that changes nothing, let time pass.

        Return the state after that, and whether anything was written; None at rest.
        """
        before, wrote = state.key, False
        for call in [*self.calls(state)]:
            if any(call.words == again.words for again in self.calls(state)):
                each = self.called(state, call).transition
                state, wrote = each.state, wrote or each.wrote
        for deed in [each for each in agent_deeds(state) if not each.cost]:
            if deed.words in {each.words for each in agent_deeds(state)}:
                state, wrote = self.deed(state, deed).state, True
        if state.key != before:
            return state, wrote
        passed = self.passed(state)
        return None if passed is None else (passed.state, False)

    def passed(self, state: State) -> Transition | None:
        """Return the state after so much time that something is due; None if nothing ever is.

        What is due stays so while more time passes, since no world has windows.
        """
        if not self._is_due(state, LADDER[-1]):
            return None
        seconds = LADDER[bisect_left(LADDER, True, key=lambda after: self._is_due(state, after))]
        return Transition(f"{seconds} seconds pass", later(state, seconds), progress=True)

    def _is_due(self, state: State, seconds: int) -> bool:
        """Report whether anything happens once so much time has passed."""
        after = later(state, seconds)
        return after.key != state.key and any(
            self.called(after, call).transition.state.key != after.key for call in self.calls(after)
        )


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


def _changes(writes: Sequence[Write]) -> dict[Key, Change]:
    return {write.key: write.after for write in writes}


def _kept(state: State, ghosts: Sequence[Json], writes: Sequence[Write]) -> dict[Key, Change]:
    """Return what is not served: what is kept in mind, and late writes that are void by now."""
    kept = _remembered(state, ghosts)
    for late in state.late:
        body = state.objects[late].body
        if any(write.key == tuple(body["key"]) and is_void(body["call"], write) for write in writes):
            kept |= dict.fromkeys(each for each in state.late if each >= late)  # what follows relies on its success
            break
    return kept


def _remembered(state: State, ghosts: Sequence[Json]) -> dict[Key, Change]:
    return {GHOST: ghosts[-1]} if ghosts and ghosts[-1] != state.ghost else {}


def is_void(call: Json, write: Write) -> bool:
    """Report whether a late call comes to nothing once another write has changed its object.

    A creation is refused only as long as the object exists.
    """
    names = call.get("names")
    return names == "version" or (names == "object" and write.after is None)


def _pending(write: Write, number: int) -> Json:
    return {
        "metadata": {"name": f"{number:02}"},
        "key": [*write.key],
        "spec": {"nodeName": _node_of(write)},
        "call": write.call,
    }


def _node_of(write: Write) -> str:
    spec = (write.after or write.before or {}).get("spec")
    return str(spec.get("nodeName", "")) if isinstance(spec, dict) else ""


def _resource(key: list[Any]) -> Resource:
    found = RESOURCES[key[0]]
    return found if key[1] is None else found.within(key[1])
