"""Writes of a rollout: those of different nodes at the same time, bounded, and nobody waits for a slow one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import view_node
from nodeupgrade.domain.rollout.actions import Cordon, NodeAction, RestoreCordon, Wait, WriteStatus
from nodeupgrade.engine.rollout.lanes import Lanes, Rank, Results, WriteBudget
from nodeupgrade.ports.kube import ConflictError, RejectedError, UnavailableError
from tests.doubles.kube_fleet import node_object

STATUS = WriteStatus(status=UpgradeStatus(), reason=Reason.PROGRESSING, message="")


def cordon(node: str) -> Cordon:
    body = node_object(node, "v1.30.14")
    body["metadata"] |= {"uid": node, "resourceVersion": "1"}
    return Cordon(node=NodeName(node), view=view_node(body), reason=Reason.CORDONED, message="")


def restore(node: str) -> RestoreCordon:
    return RestoreCordon(node=NodeName(node), view=cordon(node).view, reason=Reason.UNCORDONED, message="")


@dataclass
class Server:
    """Does what it is told, when it is told, and remembers the order."""

    slow: dict[str, asyncio.Event] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    async def carry_out(self, action: NodeAction) -> NodeAction | None:
        name = f"{type(action).__name__} {getattr(action, 'node', '')}".strip()
        self.begun.append(name)
        if (wait := self.slow.get(name)) is not None:
            await wait.wait()
        if (error := self.errors.get(name)) is not None:
            raise error
        self.done.append(name)
        return action

    async def tell(self, action: NodeAction) -> None:
        self.told.append(type(action).__name__)

    async def run(self, lanes: Lanes, *actions: NodeAction) -> Results:
        return await lanes.run(actions, self.carry_out, self.tell)


async def test_a_slow_node_delays_nobody_and_is_left_alone_until_it_is_done() -> None:
    late: list[str] = []
    lanes = Lanes(WriteBudget(), "a", patience=0.05, on_late=lambda: late.append("a"))
    server = Server(slow={"Cordon x": asyncio.Event()})
    results = await server.run(lanes, cordon("x"), cordon("y"), STATUS)
    assert (server.done, results.complete) == (["Cordon y", "WriteStatus"], True)
    assert lanes.busy == {"x"}
    before = frozenset({NodeName("z")})
    assert lanes.free((restore("x"), restore("y"), restore("z"), STATUS), before) == (restore("y"), STATUS)

    await server.run(lanes, restore("x"), restore("y"))
    assert server.begun.count("RestoreCordon x") == 0, "nothing more for a node before its write is answered"

    server.slow["Cordon x"].set()
    await settle()
    assert late == ["a"]
    results = await server.run(lanes)
    assert [type(action).__name__ for action in results.applied] == ["Cordon"]
    assert lanes.busy == frozenset()


async def test_actions_for_one_node_keep_their_order() -> None:
    server = Server(slow={"Cordon x": asyncio.Event()})
    running = asyncio.ensure_future(server.run(Lanes(WriteBudget(), "a"), cordon("x"), cordon("y"), restore("x")))
    await settle()
    assert server.done == ["Cordon y"]
    assert "RestoreCordon x" not in server.begun
    server.slow["Cordon x"].set()
    await running
    assert server.done[1:] == ["Cordon x", "RestoreCordon x"]
    assert len(server.told) == 3


async def test_a_refused_node_affects_nobody_else() -> None:
    server = Server(errors={"Cordon x": RejectedError("no")})
    results = await server.run(Lanes(WriteBudget(), "a"), cordon("x"), cordon("y"), STATUS)
    assert [(each.node, each.action, each.problem) for each in results.refused] == [("x", Cordon, "no")]
    assert server.done == ["Cordon y", "WriteStatus"]
    assert not results.complete
    assert results.fault is None


@pytest.mark.parametrize("error", [RejectedError("no"), UnavailableError("silence")])
async def test_what_follows_a_failed_write_for_a_node_is_not_begun(error: Exception) -> None:
    server = Server(errors={"Cordon x": error})
    results = await server.run(Lanes(WriteBudget(), "a"), cordon("x"), restore("x"), restore("y"))
    assert (sorted(server.begun), server.done) == (["Cordon x", "RestoreCordon y"], ["RestoreCordon y"])
    assert not results.complete


async def test_a_fault_of_the_status_leaves_the_nodes_results() -> None:
    server = Server(errors={"WriteStatus": ConflictError("changed")})
    results = await server.run(Lanes(WriteBudget(), "a"), cordon("y"), STATUS)
    assert isinstance(results.fault, ConflictError)
    assert len(results.applied) == 1


async def test_after_an_unanswered_write_no_further_one_of_its_kind_is_begun() -> None:
    server = Server(errors={"Cordon x": UnavailableError("silence")})
    results = await server.run(Lanes(WriteBudget(1, 0), "a"), cordon("x"), cordon("y"), restore("z"))
    assert server.begun == ["Cordon x", "RestoreCordon z"]
    assert not results.complete


@pytest.mark.parametrize("patience", [None, 10.0])
async def test_after_a_bug_nothing_more_is_begun(patience: float | None) -> None:
    lanes = Lanes(WriteBudget(), "a", patience=patience)
    server = Server(errors={"Cordon x": ZeroDivisionError()})
    with pytest.raises(ZeroDivisionError):
        await server.run(lanes, cordon("x"), cordon("y"), STATUS)
    assert server.begun == ["Cordon x"]
    with pytest.raises(ZeroDivisionError):
        await server.run(lanes, restore("z"))


async def test_what_writes_nothing_is_no_lane() -> None:
    lanes = Lanes(WriteBudget(), "a")
    wait = Wait(node=NodeName("x"), reason=Reason.PROGRESSING, message="")
    assert lanes.free((wait,), frozenset({NodeName("x")})) == (wait,)
    assert (await Server().run(lanes, wait)).applied == [wait]


X = NodeName("x")


async def test_what_follows_on_an_action_is_carried_out_in_the_same_run() -> None:
    asked: list[tuple[str, str | None]] = []

    async def follow(node: NodeName, last: NodeAction | None) -> tuple[NodeAction, ...]:
        asked.append((node, None if last is None else type(last).__name__))
        return (restore(node),) if isinstance(last, Cordon) else ()

    server = Server(errors={"Cordon y": RejectedError("no")})
    results = await Lanes(WriteBudget(), "a").run((cordon("x"), cordon("y")), server.carry_out, server.tell, follow)
    assert server.done == ["Cordon x", "RestoreCordon x"]
    assert asked == [("x", "Cordon"), ("x", "RestoreCordon")], "nothing follows on what failed"
    assert [type(action).__name__ for action in results.followed] == ["RestoreCordon"]
    assert [type(action).__name__ for action in results.applied] == ["Cordon", "RestoreCordon"]


@pytest.mark.parametrize(("found", "late"), [((), []), ((cordon("x"),), ["a"])], ids=["nothing", "something"])
async def test_a_node_that_is_looked_at_for_long_delays_nobody(found: tuple[NodeAction, ...], late: list[str]) -> None:
    seen, calls = asyncio.Event(), list[str]()

    async def follow(_node: NodeName, last: NodeAction | None) -> tuple[NodeAction, ...]:
        if last is not None:
            return ()
        await seen.wait()
        return found

    lanes, server = Lanes(WriteBudget(), "a", patience=0.05, on_late=lambda: calls.append("a")), Server()
    await lanes.run((STATUS,), server.carry_out, server.tell, follow, (X,))
    assert server.done == ["WriteStatus"]
    assert lanes.busy == {"x"}
    seen.set()
    await settle()
    assert calls == late, "nobody is called because of nothing"
    assert lanes.busy == frozenset()


@pytest.mark.parametrize(
    ("error", "fault"), [(UnavailableError("silence"), True), (ConflictError("changed"), False)], ids=["silence", "new"]
)
async def test_what_follows_may_not_be_known(error: Exception, fault: bool) -> None:
    async def follow(_node: NodeName, _last: NodeAction | None) -> tuple[NodeAction, ...]:
        raise error

    server = Server()
    results = await Lanes(WriteBudget(), "a").run((cordon("y"), STATUS), server.carry_out, server.tell, follow, (X,))
    assert sorted(server.done) == ["Cordon y", "WriteStatus"]
    assert (results.complete, results.fault is error) == (False, fault)


async def test_what_is_broken_off_gives_its_permit_back() -> None:
    budget = WriteBudget(1, 0)
    lanes, server = Lanes(budget, "a", patience=0.01), Server(slow={"Cordon x": asyncio.Event()})
    await server.run(lanes, cordon("x"), cordon("y"))
    assert lanes.busy == {"x", "y"}
    await lanes.close()
    assert (await server.run(Lanes(budget, "b"), cordon("z"))).complete


async def hold(budget: WriteBudget, rollout: str, rank: Rank, begun: list[str], end: asyncio.Event) -> None:
    async with budget.permit(rollout, rank):
        begun.append(f"{rollout}{rank:d}")
        await end.wait()


async def settle(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_permits_go_by_rank_then_by_turn_of_the_rollouts() -> None:
    budget, begun, end = WriteBudget(1, 0), list[str](), asyncio.Event()
    end.set()
    first = asyncio.Event()
    asked = [("a", Rank.RUN)] * 3 + [("b", Rank.CLAIM)] * 2 + [("b", Rank.RUN), ("c", Rank.RUN), ("a", Rank.EVENT)]
    jobs = [asyncio.ensure_future(hold(budget, "-", Rank.RUN, begun, first))]
    await settle()
    jobs += [asyncio.ensure_future(hold(budget, *each, begun, end)) for each in asked]
    await settle()
    first.set()
    await asyncio.gather(*jobs)
    assert begun == ["-0", "a0", "b0", "c0", "a0", "a0", "b1", "b1", "a2"]


async def test_some_permits_are_for_nodes_in_flight_alone() -> None:
    budget, begun, end = WriteBudget(3, 2), list[str](), asyncio.Event()
    jobs = [asyncio.ensure_future(hold(budget, "a", Rank.CLAIM, begun, end)) for _ in range(3)]
    await settle()
    jobs += [asyncio.ensure_future(hold(budget, "b", Rank.RUN, begun, end)) for _ in range(3)]
    await settle()
    assert Counter(begun) == {"a1": 1, "b0": 2}
    end.set()
    await asyncio.gather(*jobs)
    assert len(begun) == 6


async def test_an_event_waits_while_many_writes_are_in_progress() -> None:
    budget, begun, end = WriteBudget(4, 0, before_events=2), list[str](), asyncio.Event()
    jobs = [asyncio.ensure_future(hold(budget, "a", Rank.RUN, begun, end)) for _ in range(2)]
    await settle()
    jobs += [asyncio.ensure_future(hold(budget, "a", rank, begun, end)) for rank in (Rank.EVENT, Rank.RUN)]
    await settle()
    assert Counter(begun) == {"a0": 3}
    end.set()
    await asyncio.gather(*jobs)
    assert begun[-1] == "a2"


Schedule = list[tuple[str, int, bool]]


@settings(deadline=None, max_examples=60)
@given(
    limits=st.integers(1, 4).flatmap(lambda at_once: st.tuples(st.just(at_once), st.integers(0, at_once))),
    schedule=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0, 1, 2]), st.booleans()), max_size=30),
)
def test_the_bound_holds_and_everybody_is_served(limits: tuple[int, int], schedule: Schedule) -> None:
    """Whoever waits gets a permit in the end, whoever else gives up waiting meanwhile."""
    asyncio.run(serve(WriteBudget(*limits), limits[0], schedule))


async def serve(budget: WriteBudget, at_once: int, schedule: Schedule) -> None:
    holding, most, served = 0, 0, 0

    async def one(rollout: str, rank: int) -> None:
        nonlocal holding, most, served
        async with budget.permit(rollout, Rank(rank)):
            holding += 1
            most = max(most, holding)
            try:
                await asyncio.sleep(0)
            finally:
                holding -= 1
        served += 1

    def job(rollout: str, rank: int) -> Callable[[], Awaitable[None]]:
        return lambda: one(rollout, rank)

    jobs = [(asyncio.ensure_future(job(rollout, rank)()), gives_up) for rollout, rank, gives_up in schedule]
    await asyncio.sleep(0)
    for task, gives_up in jobs:
        if gives_up:
            task.cancel()
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.gather(*(task for task, _ in jobs), return_exceptions=True)
    assert most <= at_once
    assert served == sum(not task.cancelled() for task, _ in jobs)
