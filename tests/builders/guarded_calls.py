"""Calls to a runtime, and the conditions under which the shield judges them."""

from datetime import UTC, datetime
from pathlib import PurePosixPath

from nodeupgrade.api.values import AwakeTime, BootIdentity, MonotonicSeconds, SandboxId
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.shield.call_admission import CriCallJudge, JudgePorts
from nodeupgrade.node.shield.harmful_calls import Shielded
from nodeupgrade.node.shield.shield import RefusedCall
from tests.builders.shielded import AS_FOUND, WEB, container_of, shielded_plan

PEER = "unix-abstract:kubelet"
STOP = "/runtime.v1.RuntimeService/StopContainer"

STOP_WEB = pb.StopContainerRequest(container_id=container_of(WEB)).SerializeToString()


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(3612.5)

    def awake(self) -> AwakeTime:
        return AwakeTime(12.5)

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def boot(self) -> BootIdentity:
        raise NotImplementedError


class World:
    """What a guard sees, for tests to change."""

    def __init__(self, socket: PurePosixPath) -> None:
        self.raised, self.alive, self.digest = True, True, AS_FOUND
        self.refused: list[RefusedCall] = []
        self.listing: tuple[ContainerInstance, ...] = ()
        self.ended: frozenset[Process] = frozenset()
        self.waited: list[int] = []
        self.asked = 0
        self.deleted_after: int | None = None
        self.broken = False
        self.shutting_down = False
        self.ports = JudgePorts(
            is_raised=lambda: self.raised, socket=socket,
            lives=lambda process: self.alive and process not in self.ended,
            list_containers=self.listed,
            memory=lambda _container: 100, owners=self.owners,
            record_refusal=self.record, record_waiting=self.waited.append,
            clock=Clock(),
            shuts_down=self.shuts_down, client=lambda peer: "" if peer == PEER else "crictl (process 7)",
        )  # fmt: skip

    async def shuts_down(self) -> bool:
        return self.shutting_down

    async def listed(self, _service: str, _sandbox: SandboxId) -> tuple[ContainerInstance, ...]:
        return self.listing

    def owners(self) -> Evidence:
        self.asked += 1
        deleted = (WEB.uid,) if self.deleted_after is not None and self.asked > self.deleted_after else ()
        return Evidence(deleted=deleted).with_manifests(shielded_plan().owned, lambda _path: (self.digest,))

    def record(self, call: RefusedCall) -> None:
        if self.broken:
            raise OSError("no space")
        self.refused.append(call)

    def guard(self, patience: float = 0.0) -> CriCallJudge:
        return CriCallJudge(lambda: Shielded.of(shielded_plan()), self.ports, patience=patience)
