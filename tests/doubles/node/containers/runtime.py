"""A container runtime: metadata on disk, a copy in memory that it serves, and processes that outlive its restart."""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import replace
from hashlib import sha256

from nodeupgrade.api.values import ContainerId, Digest, PodRef, PodUid, SandboxId
from nodeupgrade.errors import ContainerGone, MetadataConflict, Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeAtWork,
    RuntimeInfo,
    RuntimeKind,
    RuntimeProcess,
)
from nodeupgrade.node.runtimes.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    SandboxInstance,
    StoredHashes,
)
from nodeupgrade.node.runtimes.runtime import BeforeImage, RuntimeClients
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers import runtime_restart
from tests.doubles.node.containers.records import ENCODING, Records, Stored, Troubles, changed, document
from tests.doubles.node.containers.runtime_restart import PLACES, RUNTIME_PROGRAM
from tests.doubles.node.timeline import Timeline

MONITORS_GET_SECONDS, TUNED_SECONDS = 5.0, 20.0
ELSEWHERE = "/var/lib/elsewhere"
MAIN_PID = 2
KILLED, TERMINATED = 255, 143
CALL_SECONDS = 10.0
"""How long a call waits for a runtime that hangs."""
POLL_SECONDS = 0.1


class SimulatedRuntime:
    """Implements node.runtimes.runtime.ContainerRuntime; the second half is for the simulated node only.

    Attributes:
        numbered: the last number that was assigned.
        started: when its process was started, seconds since boot.
        asked: what it was asked to stop since then, according to its log.
        unseen: containers and sandboxes below other roots than the current one, by root.
        words: the command line of its process.
        root: where it keeps everything.
        broken: it could not start with its configuration, and does not answer.
        kind: what it is like.
        stopped: it was stopped for its metadata to be written.
    """

    def __init__(
        self,
        timeline: Timeline,
        calls: Calls,
        disk: MutableMapping[str, bytes] | None = None,
        kind: RuntimeKind = runtime_restart.KIND,
    ) -> None:
        self.kind = kind
        self.stopped = False
        self.containers: dict[ContainerId, Stored] = {}
        self.sandboxes: dict[SandboxId, SandboxInstance] = {}
        self.troubles = Troubles()
        self._disk: MutableMapping[str, bytes] = {} if disk is None else disk
        self._timeline = timeline
        self._calls = calls
        self.unseen: dict[str, Records] = {}
        self.words: tuple[str, ...] = (RUNTIME_PROGRAM,)
        self.root = PLACES.root
        self.broken = False
        self._program: Digest | None = None
        self.started = timeline.monotonic
        self.asked: set[str] = set()
        self._unheard = list[Callable[[], None]]()
        self._answers_from = 0.0
        self.numbered = 100

    def info(self) -> RuntimeInfo:
        """Ask the runtime for its identity."""
        self._reading("runtime.info")
        return RuntimeInfo(
            name=self.kind.name,
            version="2.1.9",
            cri_versions=("v1", "v1alpha2"),  # so that kubelets of every version can talk to it
            binary_version="2.1.9",
            process=RuntimeProcess(pid=self.troubles.peer or MAIN_PID, words=self.words, program=self._program),
            places=replace(PLACES, root=self.root),
        )

    def inventory(self, *, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        """List what is served from memory."""
        self._reading("runtime.inventory")
        if self.troubles.unlisted is not None:
            raise self.troubles.unlisted
        listed = [stored for i, stored in self.containers.items() if i not in self.troubles.overlooks]
        sandboxes = self.sandboxes.values()
        return Inventory(
            containers=tuple(s.instance if full or s.instance.pod.uid in of else s.listed for s in listed),
            sandboxes=tuple(
                s if full or (addresses and s.ready) or s.pod.uid in of else replace(s, ip=None) for s in sandboxes
            ),
        )

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Read the metadata on disk."""
        self._calls.read("runtime.before_images")
        if not self.stopped:
            self._require_answer()
        held = {i: self._held(i) for i in ids if i in self.containers}
        return {
            i: BeforeImage(container_id=i, encoding=ENCODING, data=stored.document(), hashes=stored.hashes)
            for i, stored in held.items()
        }

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        """Who uses its sockets."""
        self._calls.read("runtime.clients")
        if why := self.troubles.unseen_followers:
            return RuntimeClients(mounted=self.troubles.mounters, unknown=why)
        return RuntimeClients(mounted=self.troubles.mounters, connected=frozenset(self.troubles.followers))

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        """Which of these processes are still running, whatever the runtime's root."""
        self._calls.read("runtime.alive")
        return frozenset(processes) & self.living(everywhere=True)

    def living(self, *, everywhere: bool) -> frozenset[Process]:
        """The processes of containers and sandboxes; with ``everywhere``, also of those below other roots."""
        roots = [(self.containers, self.sandboxes), *(self.unseen.values() if everywhere else [])]
        found = [s.instance.process for containers, _ in roots for s in containers.values()]
        found += [s.process for _, sandboxes in roots for s in sandboxes.values()]
        return frozenset(process for process in found if process is not None)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Report how it would come back; only the relevant part of its configuration file is parsed."""
        self._calls.read("runtime.next_start")
        return runtime_restart.next_start(self._disk, unit, running)

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Report what a restart would cost."""
        self._reading("runtime.restart_hazards")
        return runtime_restart.hazards(seen.inventory, self.troubles.paused, split=self.kind.one_monitor_per_pod)

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        """Give monitors more time."""
        self._calls.read("runtime.restart_tuning")
        return runtime_restart.tuning()

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Change the hashes on disk, one container after another."""
        for image, hashes in changes:
            self._rewrite(image, hashes)

    def _rewrite(self, image: BeforeImage, hashes: StoredHashes) -> None:
        wanted = changed(image.hashes, hashes)
        if not all(each is None or HASH.fullmatch(each) for each in (wanted.container, wanted.without_resources)):
            raise MetadataConflict(f"{wanted} are not hashes")
        self._stop_before(self._held(image.container_id).hashes != wanted)
        with self._calls.effect("runtime.rewrite"):
            self._require_writable()
            stored = self._held(image.container_id)
            if stored.document() not in {image.data, document(image.data, wanted)}:
                raise MetadataConflict(f"metadata of {image.container_id} is neither as read nor as wanted")
            stored.hashes = wanted

    def restore(self, image: BeforeImage) -> None:
        """Put the hashes of ``image`` back on disk."""
        self._stop_before(self._held(image.container_id).hashes != image.hashes)
        with self._calls.effect("runtime.restore"):
            self._require_writable()
            stored = self._held(image.container_id)
            if stored.document(image.hashes) != image.data:
                raise MetadataConflict(f"metadata of {image.container_id} changed in more than its hashes")
            stored.hashes = image.hashes

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        """Forget the wrong ends, and restart."""
        known = (image.container_id for image in images if image.container_id in self.containers)
        if wrong := frozenset(i for i in known if self.containers[i].ended):
            with self._calls.effect("runtime.reinstate"):
                for container_id in wrong:
                    self.containers[container_id].ended = False
                self.restart(words=self.words)
        return wrong

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """What it was asked to stop; ``None`` if it logs nothing."""
        return frozenset(self.asked) if list(log) else None

    def wait_until_answering(self, timeout: float) -> None:
        """Let time pass until the runtime answers."""
        self._calls.read("runtime.wait_until_answering")
        if self.stopped:
            with self._calls.effect("runtime.start"):
                self.restart(words=self.words)
        end = self._timeline.monotonic + timeout
        while not self.answering:
            rest = end - self._timeline.monotonic
            if rest <= 0:
                raise Transient(f"the runtime did not answer within {timeout:.0f} s")
            self._timeline.advance(min(rest, max(self._answers_from - self._timeline.monotonic, POLL_SECONDS)))

    @property
    def answering(self) -> bool:
        """Whether the runtime serves requests now."""
        return (
            not (self.broken or self.stopped or self.troubles.hangs) and self._timeline.monotonic >= self._answers_from
        )

    def restart(self, *, words: tuple[str, ...] = (RUNTIME_PROGRAM,)) -> None:
        """Read configuration and metadata again.

        Processes and their monitors survive, except those whose monitor answers too late, and pods one of whose
        containers has a monitor of its own, where a pod has one.

        Raises:
            StepFailed: it does not start with its configuration.
        """
        self.words, self.started, self.stopped = words, self._timeline.monotonic, False
        program = self._disk.get(RUNTIME_PROGRAM)
        self._program = None if program is None else Digest(sha256(program).hexdigest())
        self.broken = True
        configured = runtime_restart.places(self._disk, words).root
        self._move(ELSEWHERE if self.troubles.elsewhere else configured)
        self.broken = False
        if self.kind.one_monitor_per_pod:
            self._lose_split_pods()
        slow = self.troubles.slow_monitors
        patience = TUNED_SECONDS if runtime_restart.is_tuned(words) else MONITORS_GET_SECONDS
        for notice in self._unheard:
            notice()
        self._unheard.clear()
        for container_id, stored in self.containers.items():
            stored.instance = replace(stored.instance, hashes=stored.hashes)
            self._remember(stored)
            lost = container_id in self.troubles.loses | self.troubles.paused or slow.get(container_id, 0.0) > patience
            if lost and stored.instance.state is ContainerState.RUNNING:
                self.end(container_id, KILLED)
        for container_id, exit_code in self.troubles.followers.items():
            if exit_code is not None:
                self.end(container_id, exit_code)
        self.troubles.errs_about.clear()
        self.asked.clear()
        waited = min(max(slow.values(), default=0.0), patience)
        self._answers_from = self._timeline.monotonic + waited + self.troubles.answers_after

    def _remember(self, stored: Stored) -> None:
        """Look whether a container runs, unless it is known to have ended."""
        if stored.instance.process is None:
            return
        stored.ended = stored.ended or stored.instance.id in self.troubles.errs_about
        state, code = (ContainerState.EXITED, KILLED) if stored.ended else (ContainerState.RUNNING, None)
        stored.instance = replace(stored.instance, state=state, exit_code=code)

    def power_off(self) -> None:
        """End every process."""
        for containers, sandboxes in ((self.containers, self.sandboxes), *self.unseen.values()):
            for stored in containers.values():
                self._end(stored, KILLED)
            for sandbox_id, sandbox in sandboxes.items():
                sandboxes[sandbox_id] = replace(sandbox, ready=False, process=None, monitor=None)

    def power_on(self) -> None:
        """Start for the first time after a boot, and answer at once."""
        self.restart()
        self._answers_from = 0.0

    def process(self) -> Process:
        """Create a process."""
        return Process(pid=self._next(), started=int(self._timeline.monotonic * 100))

    def create_sandbox(self, pod: PodRef, *, host_network: bool, source: str) -> SandboxInstance:
        """Start the sandbox of a pod."""
        number = self._next()
        earlier = sum(1 for s in self.sandboxes.values() if s.pod == pod)
        sandbox = SandboxInstance(
            id=SandboxId(f"sandbox-{number}"),
            pod=pod,
            ready=True,
            attempt=earlier,
            created_at=self._timeline.nanoseconds,
            host_network=host_network,
            process=self.process(),
            monitor=self.process(),
            ip="" if host_network else f"10.0.{number // 256}.{number % 256}",
            config_source=source,
            static_hash=pod.uid if source == "file" else None,
        )
        self.sandboxes[sandbox.id] = sandbox
        return sandbox

    def create_container(self, sandbox: SandboxInstance, name: str, hash_value: HashValue) -> ContainerInstance:
        """Start a container."""
        earlier = sum(1 for c in self.containers.values() if (c.instance.pod, c.instance.name) == (sandbox.pod, name))
        hashes = StoredHashes(container=hash_value)
        instance = ContainerInstance(
            id=ContainerId(f"container-{self._next()}"),
            name=name,
            sandbox_id=sandbox.id,
            pod=sandbox.pod,
            state=ContainerState.RUNNING,
            attempt=earlier,
            created_at=self._timeline.nanoseconds,
            started_at=self._timeline.nanoseconds,
            process=self.process(),
            monitor=sandbox.monitor,
            hashes=hashes,
        )
        self.containers[instance.id] = Stored(instance, hashes)
        return instance

    def end(self, container_id: ContainerId, exit_code: int) -> None:
        """End a container's process, if it runs."""
        self._end(self.containers[container_id], exit_code)

    def _end(self, stored: Stored, exit_code: int) -> None:
        if stored.instance.process is None:
            return
        stored.instance = replace(stored.instance, process=None)

        def notice() -> None:
            stored.instance = replace(stored.instance, state=ContainerState.EXITED, exit_code=exit_code)

        if self.troubles.hears_late:
            self._unheard.append(notice)
            self._timeline.after(self.troubles.hears_late, notice)
        else:
            notice()

    def split_monitors(self, container_id: ContainerId) -> None:
        """Give a container a monitor of its own, as if its sandbox's had not answered at the container's start."""
        stored = self.containers[container_id]
        stored.instance = replace(stored.instance, monitor=self.process())

    def stop_container(self, container_id: ContainerId) -> None:
        """Stop a container on request."""
        self.asked.add(container_id)
        self.end(container_id, self.troubles.exits_when_stopped.get(container_id, TERMINATED))

    def stop_sandbox(self, sandbox_id: SandboxId) -> None:
        """Stop a sandbox and everything in it on request."""
        self.asked.add(sandbox_id)
        for container_id, stored in self.containers.items():
            if stored.instance.sandbox_id == sandbox_id and stored.instance.process is not None:
                self.stop_container(container_id)
        self.sandboxes[sandbox_id] = replace(self.sandboxes[sandbox_id], ready=False, process=None, monitor=None)

    def serve(self, container_id: ContainerId, value: HashValue) -> None:
        """Store and serve another hash, as no well-behaved program would."""
        stored = self.containers[container_id]
        stored.hashes = StoredHashes(container=value)
        stored.instance = replace(stored.instance, hashes=stored.hashes)

    def _move(self, root: str) -> None:
        """Switch to another root directory, which is empty the first time."""
        if root != self.root:
            self.unseen[self.root] = (self.containers, self.sandboxes)
            self.containers, self.sandboxes = self.unseen.pop(root, ({}, {}))
            self.root = root

    def _lose_split_pods(self) -> None:
        for stored in self.containers.values():
            sandbox = self.sandboxes.get(stored.instance.sandbox_id)
            alive = stored.instance.state is ContainerState.RUNNING
            if alive and sandbox is not None and stored.instance.monitor != sandbox.monitor:
                self.sandboxes[sandbox.id] = replace(sandbox, ready=False, process=None, monitor=None)

    def _held(self, container_id: ContainerId) -> Stored:
        if container_id not in self.containers:
            raise ContainerGone(f"the runtime does not hold container {container_id}")
        if container_id in self.troubles.garbled:
            raise MetadataConflict(f"the metadata of {container_id} has an unknown form")
        return self.containers[container_id]

    def _stop_before(self, writing: bool) -> None:
        """Stop before something is written, if it would write over that; it takes note of everything at its end."""
        if writing and self.kind.stops_for_rewriting and not self.stopped:
            self._require_answer()
            with self._calls.effect("runtime.stop"):
                self.stopped = True

    def _require_writable(self) -> None:
        if not self.stopped:
            self._require_answer()

    def _reading(self, name: str) -> None:
        self._calls.read(name)
        self._require_answer()

    def _require_answer(self) -> None:
        if self.troubles.hangs:
            self._timeline.advance(CALL_SECONDS)
        if not self.answering:
            raise Transient("the runtime does not answer yet")

    def _next(self) -> int:
        self.numbered += 1
        return self.numbered
