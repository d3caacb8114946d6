"""The calls that would harm what ran before the upgrade, by ending or duplicating it, and what excuses them.

The shield stands between the kubelet and the runtime while the new kubelet is not yet verified. A call is let through
if its instance ended by itself, if its pod is over, if its owner changed it, or if the instance came later.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, assert_never

from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.cluster.owner_changes import Evidence, owner_change, was_taken_back
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, SandboxInstance
from nodeupgrade.node.verification.ended_pods import is_over

EXCUSE_SECONDS = 3.0
"""How long the executor waits for an excuse for what it sees: from the agent, or from the runtime that one is over."""


class Method(StrEnum):
    """The methods of the CRI's RuntimeService that may be refused."""

    STOP_CONTAINER = "StopContainer"
    REMOVE_CONTAINER = "RemoveContainer"
    STOP_POD_SANDBOX = "StopPodSandbox"
    REMOVE_POD_SANDBOX = "RemovePodSandbox"
    RUN_POD_SANDBOX = "RunPodSandbox"
    CREATE_CONTAINER = "CreateContainer"
    UPDATE_CONTAINER_RESOURCES = "UpdateContainerResources"
    EXEC_SYNC = "ExecSync"


_WANTED = {
    Method.STOP_CONTAINER: "stop",
    Method.REMOVE_CONTAINER: "remove",
    Method.STOP_POD_SANDBOX: "stop",
    Method.REMOVE_POD_SANDBOX: "remove",
    Method.RUN_POD_SANDBOX: "create again",
    Method.CREATE_CONTAINER: "create again",
    Method.UPDATE_CONTAINER_RESOURCES: "take memory in use from",
    Method.EXEC_SYNC: "run the preStop hook of",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCall:
    """A call of one of these methods, as far as the decision needs it."""

    method: Method
    container: ContainerId | None = None  # the container that the call names
    sandbox: SandboxId | None = None  # the sandbox that the call names
    pod: PodRef | None = None  # the pod of a sandbox that is to be created
    name: str = ""  # name of the container that is to be created
    command: tuple[str, ...] = ()  # what is to be executed
    memory: int = 0  # the new memory limit in bytes; 0 if the call sets none
    mounts: tuple[str, ...] = ()  # host paths that the new container gets


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """What a call would harm."""

    pod: PodRef
    sandbox: SandboxId  # the sandbox, or that of the container
    label: str  # ``namespace/pod/container``, or ``namespace/pod`` for a sandbox
    wanted: str  # what the kubelet wanted to do with it, as a verb
    container: str | None = None  # the container's name; None for a sandbox


@dataclass(frozen=True, slots=True)
class Shielded:
    """The instances that are protected: those of the plan's baseline that ran."""

    plan: RunPlan
    containers: dict[ContainerId, ContainerInstance]
    sandboxes: dict[SandboxId, SandboxInstance]
    # processes of several of them, such as a pod's virtual machine; only the runtime knows which has ended
    shared: frozenset[Process] = frozenset()

    @classmethod
    def of(cls, plan: RunPlan) -> Self:
        """Return what a plan protects. The agent's own pod may end at any time."""
        watched = plan.watched()
        containers, sandboxes = {c.id: c for c in watched.running()}, {s.id: s for s in watched.sandboxes if s.ready}
        return cls(plan, containers, sandboxes, plan.baseline.shared())

    def harmed_by(
        self,
        call: RuntimeCall,
        lives: Callable[[Process], bool],
        memory: Callable[[ContainerId], int | None],
        listed: Collection[ContainerInstance] = (),
    ) -> Protected | None:
        """Return what a call would harm; ``None`` if it harms nothing that still runs.

        Args:
            lives: reports whether a process still runs, according to the kernel.
            memory: returns the memory in use by a container, in bytes; ``None`` if that is unknown.
            listed: the sandbox's containers as the runtime lists them. Only needed where may_have_ended() holds.
        """
        ended = frozenset(c.id for c in listed if c.state is ContainerState.EXITED)
        runs = _Lives(lives, self.shared, ended)
        found = self._target(call, runs, memory)
        return None if found is None or found.pod.uid in self._pods_over(runs, listed) else found

    def may_have_ended(self, harmed: Protected) -> bool:
        """Report whether only the runtime knows if what a call would harm has ended."""
        completing = any(pod.pod == harmed.pod.uid for pod in self.plan.completing)
        return completing or any(
            c.process in self.shared for c in self.containers.values() if c.sandbox_id == harmed.sandbox
        )

    def _target(
        self, call: RuntimeCall, lives: "_Lives", memory: Callable[[ContainerId], int | None]
    ) -> Protected | None:
        match call.method:
            case Method.STOP_CONTAINER | Method.REMOVE_CONTAINER:
                return self._container(call, lives)
            case Method.EXEC_SYNC:
                hooks = () if self.plan.shield is None else self.plan.shield.hooks
                is_hook = any((hook.container, hook.command) == (call.container, call.command) for hook in hooks)
                return self._container(call, lives) if is_hook else None
            case Method.UPDATE_CONTAINER_RESOURCES:
                return self._container(call, lives) if _takes_memory(call, memory) else None
            case Method.STOP_POD_SANDBOX | Method.REMOVE_POD_SANDBOX:
                return self._sandbox(call, lives)
            case Method.CREATE_CONTAINER:
                return self._same_container(call, lives)
            case Method.RUN_POD_SANDBOX:
                return self._same_pod(call, lives)
            case never:
                assert_never(never)

    def excuse(self, harmed: Protected, evidence: Evidence) -> OwnerChange | None:
        """Return the owner's change because of which the harm is intended; ``None`` if there is none."""
        ends = harmed.wanted != _WANTED[Method.UPDATE_CONTAINER_RESOURCES]
        return owner_change(self.plan.owned, evidence, harmed.pod.uid, harmed.container, ends=ends)

    def was_taken_back(self, harmed: Protected, evidence: Evidence) -> bool:
        """Report whether the owner has made and taken back a change upon which a kubelet may act a moment longer."""
        return was_taken_back(self.plan.owned, evidence, harmed.pod.uid, harmed.container)

    def _container(self, call: RuntimeCall, lives: "_Lives") -> Protected | None:
        found = None if call.container is None else self.containers.get(call.container)
        return None if found is None or not lives(found) else _container_of(found, call.method)

    def _sandbox(self, call: RuntimeCall, lives: "_Lives") -> Protected | None:
        found = None if call.sandbox is None else self.sandboxes.get(call.sandbox)
        if found is None or not lives(found) or self._is_over(found, lives):
            return None
        return _sandbox_of(found, call.method)

    def _is_over(self, sandbox: SandboxInstance, lives: "_Lives") -> bool:
        """Report whether a pod has ended by itself, so that its sandbox is useless."""
        own = [c for c in self.containers.values() if c.sandbox_id == sandbox.id]
        may_complete = {c.id for c in self.plan.containers if c.may_complete}
        return bool(own) and not any(lives(c) or c.id not in may_complete for c in own)

    def _pods_over(self, lives: "_Lives", listed: Collection[ContainerInstance]) -> frozenset[PodUid]:
        """Return the pods that are over, by the runtime's record and by the kernel's."""
        return frozenset(
            pod.pod
            for pod in self.plan.completing
            if listed
            and is_over(pod, listed)
            and not any(
                lives(c)
                for c in self.containers.values()
                if c.pod.uid == pod.pod and c.name in {*pod.regular, *pod.initial}
            )
        )

    def _same_container(self, call: RuntimeCall, lives: "_Lives") -> Protected | None:
        for found in self.containers.values():
            if (found.sandbox_id, found.name) == (call.sandbox, call.name) and lives(found):
                return _container_of(found, call.method)
        return None

    def _same_pod(self, call: RuntimeCall, lives: "_Lives") -> Protected | None:
        """Compare names: a static pod whose manifest is decoded in another way comes with another UID."""
        for found in self.sandboxes.values():
            same = call.pod is not None and str(found.pod) == str(call.pod)
            if same and lives(found) and not self._is_over(found, lives):
                return _sandbox_of(found, call.method)
        return None


def _takes_memory(call: RuntimeCall, memory: Callable[[ContainerId], int | None]) -> bool:
    """Report whether the kernel would kill the container to enforce the new limit."""
    if call.memory <= 0 or call.container is None:
        return False
    return (used := memory(call.container)) is None or call.memory < used


def _container_of(found: ContainerInstance, method: Method) -> Protected:
    return Protected(
        pod=found.pod, sandbox=found.sandbox_id, label=found.label, wanted=_WANTED[method], container=found.name
    )


def _sandbox_of(found: SandboxInstance, method: Method) -> Protected:
    return Protected(pod=found.pod, sandbox=found.id, label=str(found.pod), wanted=_WANTED[method])


@dataclass(frozen=True, slots=True)
class _Lives:
    """Reports whether an instance still runs."""

    process: Callable[[Process], bool]  # reports whether a process still runs, according to the kernel
    shared: frozenset[Process]  # processes that prove of no single container that it runs
    ended: frozenset[ContainerId]  # containers that have ended, according to the runtime

    def __call__(self, instance: ContainerInstance | SandboxInstance) -> bool:
        # A pod without a process of its own does not end unless it is stopped.
        if instance.process is None and isinstance(instance, SandboxInstance):
            return True
        if instance.process is None or not self.process(instance.process):
            return False
        return instance.process not in self.shared or instance.id not in self.ended
