"""Decides whether a call to the runtime is passed on or refused; waits for an excuse where it would do harm."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from threading import Thread

import grpc
import structlog

from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.shield.call_requests import UnreadableRequest, is_unary, judged_method, parse_request
from nodeupgrade.node.shield.harmful_calls import Method, Protected, RuntimeCall, Shielded
from nodeupgrade.node.shield.proxy import Rejection
from nodeupgrade.node.shield.shield import RefusedCall

log = structlog.get_logger()

LOOK_SECONDS = 0.1

PATIENCE_SECONDS = 8.0
"""How long a call waits for an excuse. The agent reports every half second what owners changed; but it is a pod, and on
a busy node others get the processor first.
"""


RESOLVES_WITHIN = 1.0
"""Seconds. The socket's path is in memory; whoever creates a pod may name one on a file server that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePorts:
    """What the judge asks, and where it records its judgements."""

    is_raised: Callable[[], bool]  # whether the shield is raised; if not, every call is passed on
    socket: PurePosixPath  # path of the runtime's socket, as containers name it
    lives: Callable[[Process], bool]  # whether a process still runs
    # asks the runtime for the containers of a sandbox, with their exit codes, by a service of its API such as
    # ``/runtime.v1.RuntimeService``; empty if it does not answer
    list_containers: Callable[[str, SandboxId], Awaitable[tuple[ContainerInstance, ...]]]
    memory: Callable[[ContainerId], int | None]  # memory in use by a container, in bytes; None if that is unknown
    owners: Callable[[], Evidence]  # asks the agent what owners changed; returns its answers so far, and the manifests
    record_refusal: Callable[[RefusedCall], None]
    record_waiting: Callable[[int], None]  # records how many calls wait for an excuse
    clock: Clock  # for the records
    shuts_down: Callable[[], Awaitable[bool]]  # whether the node is shutting down
    client: Callable[[str], str]  # describes a client, by the address of its socket; empty for the kubelet


@dataclass(eq=False, slots=True)
class CriCallJudge:
    """Implements proxy.CallJudge for the CRI."""

    # returns the instances that are protected; only known once the shield is raised, since the plan may be amended
    protected: Callable[[], Shielded]
    ports: JudgePorts
    patience: float = PATIENCE_SECONDS  # seconds to wait for an excuse
    _off: bool = False
    _put_off: set[Protected] = field(default_factory=set)  # what a kubelet wanted for what was taken back
    _waiting: int = 0
    _unrecorded: int = 0

    def switch_off(self) -> None:
        """Pass on everything from now on, including the calls that wait for an excuse."""
        self._off = True

    def unary(self, path: str) -> bool:
        return is_unary(path)

    def concerns(self, path: str) -> bool:
        return judged_method(path) is not None

    def awaited(self, peer: str) -> bool:
        """Report whether the client is the kubelet."""
        return not self.ports.client(peer)

    async def judge(self, path: str, request: bytes, peer: str) -> Rejection | None:
        """Refuse what would harm a protected instance without an excuse."""
        method = judged_method(path)
        if method is None or not self._judges():
            return None
        try:
            call = parse_request(method, request)
        except UnreadableRequest as error:
            return self._refused(RuntimeCall(method=method), None, str(error), peer)
        if await self._holds_the_socket(call):
            why = f"{self.ports.socket} can be mounted again later"
            return Rejection(grpc.StatusCode.UNAVAILABLE, self._text(why))
        try:
            return await self._judged(call, path.rpartition("/")[0], peer)
        except Exception as error:  # noqa: BLE001 - gRPC would refuse it as well, and the executor never learn of that
            return self._refused(call, None, f"the call cannot be judged: {error}", peer)

    async def _judged(self, call: RuntimeCall, service: str, peer: str) -> Rejection | None:
        if self.protected().harmed_by(call, self.ports.lives, self.ports.memory) is None:
            return None
        self._count(1)
        try:
            harmed = await self._unexcused(call, service)
            if harmed is None:
                return None
            if harmed not in self._put_off and self.protected().was_taken_back(harmed, self.ports.owners()):
                self._put_off.add(harmed)
                why = f"not to {harmed.wanted} {harmed.label}: its owner has taken back what the kubelet acts upon"
                return Rejection(grpc.StatusCode.UNAVAILABLE, self._text(why))
            why = f"refused to {harmed.wanted} {harmed.label}, which ran before the upgrade"
            return self._refused(call, harmed, why, peer)
        finally:
            self._count(-1)  # after the refusal is recorded: the executor always sees at least one of them

    def _count(self, change: int) -> None:
        """Count the calls that wait; one whose refusal could not be recorded counts forever."""
        self._waiting += change
        try:
            self.ports.record_waiting(self._waiting + self._unrecorded)
        except OSError as error:
            log.error("waiting_call_not_recorded", error=str(error))  # noqa: TRY400  # likewise

    def _judges(self) -> bool:
        return not self._off and self.ports.is_raised()

    async def _unexcused(self, call: RuntimeCall, service: str) -> Protected | None:
        """Return what a call would harm; wait for an excuse for as long as the agent may take to answer."""
        end = time.monotonic() + self.patience
        while True:
            harmed = await self._harmed(call, service)
            if harmed is None or not self._judges():
                return None
            if await self.ports.shuts_down():
                log.info("call_allowed", wanted=harmed.wanted, instance=harmed.label, because="the node shuts down")
                return None
            excuse = self.protected().excuse(harmed, self.ports.owners())
            if excuse is not None:
                log.info("call_allowed", wanted=harmed.wanted, instance=harmed.label, because=excuse.value)
                return None
            if time.monotonic() >= end:
                return harmed
            await asyncio.sleep(LOOK_SECONDS)

    async def _harmed(self, call: RuntimeCall, service: str) -> Protected | None:
        ports, shielded = self.ports, self.protected()
        harmed = shielded.harmed_by(call, ports.lives, ports.memory)
        if harmed is None or not shielded.may_have_ended(harmed):
            return harmed
        listed = await ports.list_containers(service, harmed.sandbox)
        return shielded.harmed_by(call, ports.lives, ports.memory, listed)

    def _now(self) -> str:
        return self.ports.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")

    async def _holds_the_socket(self, call: RuntimeCall) -> bool:
        """Report whether a new container would keep the shield's socket for as long as it runs.

        Only paths with the socket's name are resolved. Where that takes too long, the container may keep it.
        """
        socket = str(self.ports.socket)
        named = [path for path in call.mounts if path.endswith(f"/{self.ports.socket.name}")]
        if call.method is not Method.CREATE_CONTAINER or not named:
            return False
        resolved, _ = await asyncio.wait([_leads_to(socket, named)], timeout=RESOLVES_WITHIN)
        return any(each.result() for each in resolved)

    def _refused(self, call: RuntimeCall, harmed: Protected | None, why: str, peer: str) -> Rejection:
        refused = RefusedCall(
            at=self._now(),
            monotonic=self.ports.clock.awake().seconds,
            method=call.method,
            instance=call.container or call.sandbox or "",
            label="an unknown instance" if harmed is None else harmed.label,
            wanted=call.method if harmed is None else harmed.wanted,
            caller=self.ports.client(peer),
        )
        log.warning(
            "call_refused",
            method=refused.method,
            instance=refused.instance,
            label=refused.label,
            caller=refused.caller or "kubelet",
        )
        try:
            self.ports.record_refusal(refused)
        except OSError as error:
            log.error("refusal_not_recorded", error=str(error))  # noqa: TRY400  # the reason says it all
            self._unrecorded += 1
            self._count(0)
        return Rejection(grpc.StatusCode.FAILED_PRECONDITION, self._text(why))

    def _text(self, why: str) -> str:
        plan = self.protected().plan
        return f"nodeupgrade: run {plan.run_id} is replacing the kubelet of {plan.node}: {why}"


def _leads_to(target: str, paths: Iterable[str]) -> asyncio.Future[bool]:
    """Resolve paths in a thread of their own, which the kernel may hold, and for which no end of the process waits.

    Returns:
        What will be whether one is the target.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bool] = loop.create_future()

    def resolve() -> None:
        leads = any(os.path.realpath(path) == target for path in paths)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(found.set_result, leads)

    with suppress(RuntimeError):  # no thread is left: as if it did not resolve in time
        Thread(target=resolve, daemon=True).start()
    return found
