"""The budget of concurrent writes: bounded, fair between rollouts, and first for nodes in flight."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.actions import (
    Admit,
    Blank,
    Claim,
    FreeSlot,
    MarkTask,
    NodeAction,
    Refuse,
    Reopen,
    StartTask,
    Wait,
)
from nodeupgrade.ports.kube import ConflictError, NotFoundError, RejectedError, UnavailableError

AT_ONCE = 64
"""Writes in progress at the same time, of all rollouts: well below what an API server gives to one client."""

RESERVED = 32
"""Of these, how many are for nodes in flight and for the status, whatever else waits or hangs."""

BEFORE_EVENTS = 2
"""Writes in progress at which an event waits: nobody waits for it, and many would delay what nodes wait for."""


class Rank(IntEnum):
    """Which writes go first when there is no room for all."""

    RUN = 0
    """For a node in flight, or for the NodeUpgrade itself."""
    CLAIM = 1
    """For a node that waits for its turn."""
    EVENT = 2
    """For people."""


_Waiters: TypeAlias = "OrderedDict[str, deque[asyncio.Future[None]]]"


class WriteBudget:
    """Permits for writes; whoever waits gets one by rank, then in turn of the rollouts, then in order.

    Args:
        at_once: Permits in all.
        reserved: Permits that only Rank.RUN may use.
        before_events: Permits in use at which Rank.EVENT gets none.
    """

    def __init__(self, at_once: int = AT_ONCE, reserved: int = RESERVED, before_events: int = BEFORE_EVENTS) -> None:
        others = max(1, at_once - reserved)
        self._limits = {Rank.RUN: at_once, Rank.CLAIM: others, Rank.EVENT: min(before_events, others)}
        self._used = 0
        self._waiting: dict[Rank, _Waiters] = {rank: OrderedDict() for rank in Rank}

    @asynccontextmanager
    async def permit(self, rollout: str, rank: Rank) -> AsyncIterator[None]:
        """Hold a permit while the context lasts."""
        await self._acquire(rollout, rank)
        try:
            yield
        finally:
            self._used -= 1
            self._serve()

    async def _acquire(self, rollout: str, rank: Rank) -> None:
        if self._used < self._limits[rank] and not self._waiting[rank]:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[rank].setdefault(rollout, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given a permit at the same moment
                self._used -= 1
                self._serve()
            raise

    def _serve(self) -> None:
        """Give free permits to those who wait."""
        for rank, waiting in self._waiting.items():
            while waiting and self._used < self._limits[rank]:
                rollout, turns = waiting.popitem(last=False)
                turn = turns.popleft()
                if turns:
                    waiting[rollout] = turns  # it is the other rollouts' turn first
                if not turn.done():
                    self._used += 1
                    turn.set_result(None)


# Lanes carry out the actions of a rollout: for different nodes at the same time, for one node one after the other.

_OF_THE_STATUS = (Admit, FreeSlot, Refuse, Wait)
"""Actions for a node that the status write of the same plan carries out, or that carry out nothing."""

_OF_WAITING_NODES = (Claim, Reopen, Blank)


# What lanes are given to carry out actions with, and what became of them.

CarryOut: TypeAlias = Callable[[NodeAction], Awaitable[NodeAction | None]]
Follow: TypeAlias = Callable[[NodeName, NodeAction | None], Awaitable[Iterable[NodeAction]]]
Tell: TypeAlias = Callable[[NodeAction], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WriteCallbacks:
    """Who works for one plan; nothing more is begun of the kinds of writes that were ``unanswered``."""

    carry_out: CarryOut
    tell: Tell
    follow: Follow
    unanswered: set[type[NodeAction]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action for a node that the API server refused or did not answer, with its error."""

    node: NodeName
    action: type[NodeAction]
    problem: str


@dataclass(slots=True)
class Results:
    """What became of actions.

    Attributes:
        applied: the actions that succeeded.
        refused: those for single nodes that the API server refused or did not answer.
        followed: those of ``applied`` that were in no plan, but followed at once on others.
        complete: whether every action succeeded.
        fault: the error of a write to the NodeUpgrade itself, after which nothing more was done to it, or that of
            finding out what follows for a node.
    """

    applied: list[NodeAction] = field(default_factory=list)
    followed: list[NodeAction] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    complete: bool = True
    fault: NodeUpgradeError | None = None


async def nothing(_node: NodeName, _last: NodeAction | None) -> tuple[NodeAction, ...]:
    """Nothing follows."""
    return ()


class Lanes:
    """The writes in progress of one rollout.

    Args:
        budget: Permits for writes, shared by all rollouts.
        rollout: The name of the NodeUpgrade.
        patience: For how many seconds a pass waits for its writes. A write that takes longer goes on: its node is
            ``busy``, and the others need not wait for it. None: until all are done, events included.
        on_late: Called when a write is done for which nobody waited.
    """

    def __init__(
        self,
        budget: WriteBudget,
        rollout: str,
        *,
        patience: float | None = None,
        on_late: Callable[[], None] = lambda: None,
    ) -> None:
        self._budget, self._rollout, self._patience, self._on_late = budget, rollout, patience, on_late
        self._writing: dict[NodeName, asyncio.Task[bool]] = {}
        self._telling: set[asyncio.Task[bool]] = set()
        self._awaited: set[asyncio.Task[bool]] = set()
        self._results = Results()
        self._broken: Exception | None = None
        self._unsettled: set[NodeName] = set()

    @property
    def busy(self) -> frozenset[NodeName]:
        """Nodes for which a write is in progress: what is known of them is about to change."""
        return frozenset(self._writing)

    @property
    def unsettled(self) -> frozenset[NodeName]:
        """Nodes whose start was not answered: it may have taken effect, or may yet, until their task is written."""
        return frozenset(self._unsettled)

    def free(self, actions: Iterable[NodeAction], then: frozenset[NodeName]) -> tuple[NodeAction, ...]:
        """Return the actions without those for busy nodes, and for those that were when the plan's input was read.

        Args:
            actions: A plan.
            then: The nodes that were busy before its input was read, which may not show what was written for them.
        """
        busy = self.busy | then
        return tuple(action for action in actions if _node_of(action) not in busy)

    async def run(
        self,
        actions: Iterable[NodeAction],
        carry_out: CarryOut,
        tell: Tell,
        follow: Follow = nothing,
        looking: Iterable[NodeName] = (),
    ) -> Results:
        """Carry out the actions of a plan, and return the results of all that were done since the last call.

        Actions for busy nodes are dropped. A refused write affects its own node only. After one that was not answered,
        further ones of the same kind are not begun.

        Args:
            actions: The plan.
            carry_out: Carries one action out, and returns the one that succeeded; None if none did.
            tell: Tells people of an action that succeeded.
            follow: Returns what follows at once for a node on the action that succeeded last; on None if it is
                one of those that are ``looking``.
            looking: Nodes of which it must first be found out what to do.

        Raises:
            Exception: An unexpected error of this plan's writes or of earlier ones; nothing more was begun after it.
        """
        self._check()
        rollout, by_node = _sorted_out(actions)
        by_node |= {node: [] for node in looking if node not in by_node}
        crew = WriteCallbacks(carry_out, tell, follow)
        for node, queue in by_node.items():
            if node not in self._writing:
                self._writing[node] = self._start(self._drive_on(node, queue, crew), node)
                self._awaited.add(self._writing[node])
        try:
            own = asyncio.ensure_future(self._drive(rollout, crew))
            await asyncio.gather(own, self._patiently())
        finally:
            own.cancel()
            self._awaited = set()
        self._check()
        results, self._results = self._results, Results()
        return results

    def doubt(self, nodes: Iterable[NodeName]) -> None:
        """Take these nodes for ones whose start was not answered."""
        self._unsettled |= {*nodes}

    async def close(self) -> None:
        """Break off what is in progress; whatever reached the API server counts."""
        tasks = {*self._writing.values(), *self._telling}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _patiently(self) -> None:
        """Wait for this plan's writes, but not for ever."""
        if self._awaited:
            await asyncio.wait(self._awaited, timeout=self._patience)
        while self._patience is None and self._telling:
            await asyncio.wait(self._telling)

    async def _drive_on(self, node: NodeName, queue: list[NodeAction], crew: WriteCallbacks) -> bool:
        """Carry out a node's actions, and what follows on them at once; return whether there was anything to do."""
        last, idle = await self._drive(queue, crew), not queue
        while last is not None or not queue:
            try:
                _, by_node = _sorted_out(await crew.follow(node, last))
            except (ConflictError, NotFoundError):
                self._results.complete = False
                return True
            except NodeUpgradeError as error:
                self._results.complete, self._results.fault = False, error
                return True
            if not (queue := by_node.get(node, [])):
                break
            last, idle = await self._drive(queue, crew, follows=True), False
        return not idle

    async def _drive(
        self, queue: list[NodeAction], crew: WriteCallbacks, *, follows: bool = False
    ) -> NodeAction | None:
        """Carry out actions one after the other, up to the first that fails: what follows may depend on it.

        Returns:
            The last one if all succeeded, else None.
        """
        done: NodeAction | None = None
        for action in queue:
            async with self._budget.permit(self._rollout, _rank(action)):
                if self._broken is not None or type(action) in crew.unanswered:
                    self._results.complete = False
                    return None
                try:
                    done = await crew.carry_out(action)
                except NodeUpgradeError as error:
                    if isinstance(error, UnavailableError):
                        crew.unanswered.add(type(action))
                        self._unsettled |= {action.node} if isinstance(action, StartTask) else set()
                    self._failed(action, error)
                    return None
                except Exception as error:  # noqa: BLE001 - whoever calls run() gets it
                    self._broken = error
                    return None
            if done is None:
                self._results.complete = False
                return None
            self._unsettled -= {done.node} if isinstance(done, MarkTask | StartTask) else set()
            self._results.applied.append(done)
            self._results.followed += [done] if follows else []
            self._telling.add(self._start(self._tell(done, crew.tell), None))
        return done

    def _failed(self, action: NodeAction, error: NodeUpgradeError) -> None:
        """Record an error: that of a single node, or of the NodeUpgrade itself."""
        self._results.complete = False
        node = getattr(action, "node", None)
        if node is None or not isinstance(error, RejectedError | UnavailableError):
            self._results.fault = error
        else:
            self._results.refused.append(Refusal(node, type(action), str(error)))

    async def _tell(self, action: NodeAction, tell: Tell) -> bool:
        async with self._budget.permit(self._rollout, Rank.EVENT):
            if self._broken is None:
                await tell(action)
        return True

    def _start(self, job: Awaitable[bool], node: NodeName | None) -> asyncio.Task[bool]:
        task = asyncio.ensure_future(job)

        def ended(task: asyncio.Task[bool]) -> None:
            self._telling.discard(task)
            error = None if task.cancelled() else task.exception()
            idle = not task.cancelled() and error is None and not task.result()
            if isinstance(error, Exception):
                self._broken = error
            if node is not None:
                del self._writing[node]
                if task not in self._awaited and not idle:
                    self._on_late()

        task.add_done_callback(ended)
        return task

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken


def _sorted_out(actions: Iterable[NodeAction]) -> tuple[list[NodeAction], dict[NodeName, list[NodeAction]]]:
    """Return the actions for the NodeUpgrade as a whole, and those for each node, in their order."""
    rollout, by_node = list[NodeAction](), dict[NodeName, list[NodeAction]]()
    for action in actions:
        node = _node_of(action)
        (rollout if node is None else by_node.setdefault(node, [])).append(action)
    return rollout, by_node


def _node_of(action: NodeAction) -> NodeName | None:
    """Return the node that an action writes for; None if it writes for the NodeUpgrade, or nothing."""
    return None if isinstance(action, _OF_THE_STATUS) else getattr(action, "node", None)


def _rank(action: NodeAction) -> Rank:
    return Rank.CLAIM if isinstance(action, _OF_WAITING_NODES) else Rank.RUN
