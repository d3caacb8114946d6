"""Judges the calls of a kubelet on behalf of the shield."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

import grpc
import structlog
from google.protobuf.message import DecodeError

from nodeupgrade.api.values import ContainerId, Digest, PodUid, SandboxId
from nodeupgrade.errors import Transient
from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.cri import listing
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.shield.backend import Upstream
from nodeupgrade.node.shield.call_requests import UnreadableRequest, guarded, is_unary, read
from nodeupgrade.node.shield.proxy import Rejection
from nodeupgrade.node.shield.rules import (
    EXCUSE_SECONDS,
    Method,
    Protected,
    RefusedCall,
    RuleRestart,
    RuntimeCall,
    Shielded,
)

log = structlog.get_logger()

LOOK_SECONDS = 0.1
ASK_SECONDS = 2.0
"""How long the runtime may take to say how a container ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the judgement depends on."""

    raised: Callable[[], bool]  # whether the shield is raised; if not, everything is passed on
    socket: PurePosixPath  # path of the runtime's socket, as containers name it
    lives: Callable[[Process], bool]  # whether a process still runs
    # asks the runtime for the containers of a sandbox, with their exit codes, by a service of its API such as
    # ``/runtime.v1.RuntimeService``; empty if it does not answer
    listed: Callable[[str, SandboxId], Awaitable[tuple[ContainerInstance, ...]]]
    memory: Callable[[ContainerId], int | None]  # memory in use by a container, in bytes; None if that is unknown
    deleted: Callable[[], Collection[PodUid]]  # asks the agent which pods were deleted; returns its answers so far
    digest: Callable[[str], Digest | None]  # digest of a file on the node; None if there is none
    record: Callable[[RefusedCall], None]  # writes a refused call down
    record_rule: Callable[[RuleRestart], None]  # writes down what a rule of its pod has restarted
    waiting: Callable[[int], None]  # writes down how many calls wait for an excuse
    clock: Clock  # for the record
    shuts_down: Callable[[], Awaitable[bool]]  # whether the node is shutting down
    caller: Callable[[str], str]  # who a client is, by the address of its socket; empty for the kubelet


@dataclass(eq=False, slots=True)
class CallGuard:
    """Implements proxy.CallJudge for the CRI."""

    shielded: Shielded  # the instances that are protected
    around: Surroundings
    patience: float = EXCUSE_SECONDS  # seconds to wait for an excuse
    _off: bool = False
    _waiting: int = 0
    _unrecorded: int = 0

    def switch_off(self) -> None:
        """Pass on everything from now on, including the calls that wait for an excuse."""
        self._off = True

    def unary(self, path: str) -> bool:
        return is_unary(path)

    def concerns(self, path: str) -> bool:
        return guarded(path) is not None

    def awaited(self, peer: str) -> bool:
        """Report whether a client is the kubelet."""
        return not self.around.caller(peer)

    async def judge(self, path: str, request: bytes, peer: str) -> Rejection | None:
        """Refuse what would harm a protected instance without an excuse."""
        method = guarded(path)
        if method is None or not self._judges():
            return None
        try:
            call = read(method, request)
        except UnreadableRequest as error:
            return self._refused(RuntimeCall(method=method), None, str(error), peer)
        if self._holds_the_socket(call):
            return Rejection(
                grpc.StatusCode.UNAVAILABLE, self._text(f"{self.around.socket} can be mounted again later")
            )
        service = path.rpartition("/")[0]
        if self.shielded.harmed_by(call, self.around.lives, self.around.memory) is None:
            # What has ended is only removed, but with it goes how it ended.
            await self._follows_rule(call, service, peer)
            return None
        self._count(1)
        try:
            harmed = await self._unexcused(call, service, peer)
            if harmed is None:
                return None
            why = f"refused to {harmed.wanted} {harmed.label}, which ran before the upgrade"
            return self._refused(call, harmed, why, peer)
        finally:
            self._count(-1)  # after the refusal is written down: at no moment is neither known

    def _count(self, change: int) -> None:
        """Count the calls that wait; one whose refusal could not be written down counts for ever."""
        self._waiting += change
        try:
            self.around.waiting(self._waiting + self._unrecorded)
        except OSError as error:
            log.error("waiting_call_not_recorded", error=str(error))  # noqa: TRY400  # likewise

    def _judges(self) -> bool:
        return not self._off and self.around.raised()

    async def _unexcused(self, call: RuntimeCall, service: str, peer: str) -> Protected | None:
        """Return what a call would harm; wait for an excuse for as long as the agent may take to answer."""
        end = time.monotonic() + self.patience
        while True:
            harmed = await self._harmed(call, service)
            if harmed is None or not self._judges():
                return None
            if await self._follows_rule(call, service, peer):
                return None
            if await self.around.shuts_down():
                log.info("call_allowed", wanted=harmed.wanted, instance=harmed.label, because="the node shuts down")
                return None
            excuse = self.shielded.excuse(harmed, self.around.deleted(), self.around.digest)
            if excuse is not None:
                log.info("call_allowed", wanted=harmed.wanted, instance=harmed.label, because=excuse.value)
                return None
            if time.monotonic() >= end:
                return harmed
            await asyncio.sleep(LOOK_SECONDS)

    async def _harmed(self, call: RuntimeCall, service: str) -> Protected | None:
        around, shielded = self.around, self.shielded
        harmed = shielded.harmed_by(call, around.lives, around.memory)
        if harmed is None or not shielded.may_have_ended(harmed):
            return harmed
        return shielded.harmed_by(call, around.lives, around.memory, await around.listed(service, harmed.sandbox))

    async def _follows_rule(self, call: RuntimeCall, service: str, peer: str) -> bool:
        """Report whether the kubelet restarts all of the pod by a rule of it; only once that is written down."""
        target = self.shielded.may_follow_rule(call)
        if target is None or self.around.caller(peer):
            return False
        listed = await self.around.listed(service, target.sandbox_id)
        ended = self.shielded.followed(target, self.around.lives, listed)
        if ended is None or ended.exit_code is None:
            return False
        restart = RuleRestart(
            at=self._now(), instance=target.id, label=target.label, ended=ended.id, exit_code=ended.exit_code
        )
        try:
            self.around.record_rule(restart)
        except OSError as error:
            log.error("rule_restart_not_recorded", error=str(error))  # noqa: TRY400  # the reason says it all
            return False
        log.info("call_allowed", wanted=call.method, instance=target.label, because=f"a rule, after {ended.label}")
        return True

    def _now(self) -> str:
        return self.around.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _holds_the_socket(self, call: RuntimeCall) -> bool:
        """Report whether a new container would keep the shield's socket for as long as it runs.

        Only paths with the socket's name are resolved: others may be on a server that does not answer.
        """
        socket = str(self.around.socket)
        named = (path for path in call.mounts if path.endswith(f"/{self.around.socket.name}"))
        return call.method is Method.CREATE_CONTAINER and any(os.path.realpath(path) == socket for path in named)

    def _refused(self, call: RuntimeCall, harmed: Protected | None, why: str, peer: str) -> Rejection:
        refused = RefusedCall(
            at=self._now(),
            monotonic=self.around.clock.awake().seconds,
            method=call.method,
            instance=call.container or call.sandbox or "",
            label="an unknown instance" if harmed is None else harmed.label,
            wanted=call.method if harmed is None else harmed.wanted,
            caller=self.around.caller(peer),
        )
        log.warning(
            "call_refused",
            method=refused.method,
            instance=refused.instance,
            label=refused.label,
            caller=refused.caller or "kubelet",
        )
        try:
            self.around.record(refused)
        except OSError as error:
            log.error("refusal_not_recorded", error=str(error))  # noqa: TRY400  # the reason says it all
            self._unrecorded += 1
            self._count(0)
        return Rejection(grpc.StatusCode.FAILED_PRECONDITION, self._text(why))

    def _text(self, why: str) -> str:
        plan = self.shielded.plan
        return f"nodeupgrade: run {plan.run_id} is replacing the kubelet of {plan.node}: {why}"


async def containers_of(upstream: Upstream, service: str, sandbox: SandboxId) -> tuple[ContainerInstance, ...]:
    """Return the containers of a sandbox as the runtime lists them, with their exit codes.

    Returns:
        Empty if the runtime does not answer.
    """
    try:
        data = await upstream.ask(f"{service}/ListContainers", b"", ASK_SECONDS)
        found = [c for c in pb.ListContainersResponse.FromString(data).containers if c.pod_sandbox_id == sandbox]
        return tuple([await _with_exit_code(upstream, service, each) for each in found])
    except (Transient, DecodeError):
        return ()


async def _with_exit_code(upstream: Upstream, service: str, listed: pb.Container) -> ContainerInstance:
    status = None
    if not listing.is_running(listed):
        wanted = pb.ContainerStatusRequest(container_id=listed.id)
        data = await upstream.ask(f"{service}/ContainerStatus", wanted.SerializeToString(), ASK_SECONDS)
        status = pb.ContainerStatusResponse.FromString(data)
    return listing.container_of(listed, status, {}, process=None, monitor=None)
