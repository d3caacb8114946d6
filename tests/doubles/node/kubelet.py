"""A kubelet that compares hashes, and a monitor that records when it meets a container that it would not recognise.

As on a real node, the bytes of the program at the moment of its start decide which version runs.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from zlib import crc32

from nodeupgrade.api.values import PodRef
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.errors import Transient
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.layout import CPU_STATE
from nodeupgrade.kubelet.state_files.formats import unreadable
from nodeupgrade.kubelet.trial_command import NOWHERE
from nodeupgrade.kubelethash import HashValue, KubeletVersion
from nodeupgrade.node.running_kubelet.kubelet import Answer, ServingEndpoint, TrialStart
from nodeupgrade.node.running_kubelet.taken_ports import Listener
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, SandboxInstance
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall
from tests.doubles.node.api_server import SimulatedApiServer
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.pods import accepted, computed_hash, is_over, is_restarted, static_pods
from tests.doubles.node.containers.runtime import MAIN_PID, SimulatedRuntime
from tests.doubles.node.shield import SimulatedShield
from tests.doubles.node.storage.reading import readable
from tests.doubles.node.timeline import Timeline

PROGRAM = "/usr/bin/kubelet"
PORT, HEALTH_PORT = 10250, 10248
IN_USE = '"Failed to {what}" err="listen tcp :{port}: bind: address already in use"'
FIRST_WITH_STATE = 8
STATE = "/var/lib/kubelet/cpu_manager_state"
FLAG_REMOVED_IN_1_27 = "--container-runtime=remote"

UNKNOWN_GATE, REJECTED_SETTING = "NoSuchGate", "runOnce: true"

EXIT_SECONDS, SYNC_SECONDS, HEALTHY_SECONDS = 0.05, 0.1, 0.2
SYNC_PERIOD_SECONDS = 1.0
SICKENS_SECONDS = 1.5
REPORT_SECONDS = 0.6
"""After its start, a kubelet writes its version into the status of its Node."""


def program(version: str) -> bytes:
    """Return the kubelet program of a version."""
    return f"kubelet {version}".encode()


def is_program(data: bytes | None) -> bool:
    """Report whether this is a kubelet program, which can be executed."""
    return data is not None and data.startswith(b"kubelet v")


def stamp_of(data: bytes) -> str:
    """Return the stamp of a file with this content."""
    return str(crc32(data))


def state(version: str) -> bytes:
    """Return the state file as a version writes it; the two checksums are known from countless nodes."""
    checksum = 1353318690 if history.CPU_STATE_V2.applies_to(KubeletVersion.parse(version)) else 3242152201
    return json.dumps({"policyName": "none", "defaultCpuSet": "", "checksum": checksum}).encode()


def version_of(data: bytes) -> KubeletVersion:
    """Return the version of a kubelet program."""
    return KubeletVersion.parse(data.decode().removeprefix("kubelet "))


class Behaviour(StrEnum):
    """What a kubelet of some version does once it is started."""

    WELL = "well"
    EXITS = "exits"
    NEVER_HEALTHY = "never healthy"
    SICKENS = "sickens"
    """Healthy at first, then unhealthy, but alive throughout."""
    EXITS_HEALTHY = "exits healthy"
    """Healthy at first, then it exits, and so does every one that systemd starts instead."""


@dataclass(slots=True)
class KubeletProcess:
    """One run of the program."""

    pid: int
    version: KubeletVersion
    arguments: tuple[str, ...]
    path: str = PROGRAM
    stamp: str | None = None
    healthy: bool = False
    started: float = 0.0
    without: frozenset[int] = frozenset()  # ports that another process had when it was started
    knows_pods: bool = False  # whether it has had the node's pods from the API server
    # the hashes that it accepts, by namespace, pod and container
    expected: dict[tuple[str, str, str], frozenset[HashValue]] = field(default_factory=dict)


_KEPT_RUNNING = frozenset({Role.REGULAR, Role.SIDECAR})


@dataclass(frozen=True, slots=True)
class _Hashes:
    """The hashes that one version stores with the containers of a pod, and those that it accepts, by name."""

    pod: Pod
    stored: dict[str, HashValue]
    compared: dict[str, frozenset[HashValue]]


class SimulatedKubelet:
    """Implements node.running_kubelet.kubelet.Kubelet, and is the kubelet.

    Attributes:
        pods: the node's pods as the API server has them.
        api: the API server.
        behaviour: of kubelets that misbehave, by version, for example ``v1.33.13``.
        also_accepts: of patched kubelets, by version, those whose hashes they accept besides their own.
        exited: called when the process exits by itself.
        configuration: what configz answers; ``None`` if access is forbidden.
        stamp: returns the stamp of a program on disk.
        wrote: its log since it was started.
        impersonated: whether another process answers at the health endpoint, whatever the kubelet does.
        hidden_by: the answer, well or not, of the pod that is reached at the health endpoint, if one is.
        taken: the ports that other processes listen at; a kubelet that is started meanwhile does not get them.
        limit_used_up: returns the limit of the kernel that is used up now, if one is; no kubelet starts then.
        execs_after: seconds from the start to the kubelet's program; before, systemd's own runs in the process.
        replaced: labels of running containers that a kubelet killed because it did not recognise them.
        violations: each time a running kubelet met a container with another era's hash, or was started with files
            other than its own.
        reads: by version, the files that a kubelet is to be started with; ``None`` for a file that must not be there.
    """

    def __init__(
        self,
        *,
        node: str,
        disk: MutableMapping[str, bytes],
        runtime: SimulatedRuntime,
        shield: SimulatedShield,
        timeline: Timeline,
        calls: Calls,
    ) -> None:
        self.node = node
        self.pods: list[Pod] = []
        self.api = SimulatedApiServer(timeline)
        self.behaviour: dict[str, Behaviour] = {}
        self.also_accepts: dict[str, tuple[str, ...]] = {}
        self.exited: Callable[[], None] = lambda: None
        self.stamp: Callable[[PurePosixPath], str | None] = lambda path: stamp_of(disk[str(path)])
        self.process: KubeletProcess | None = None
        self.wrote: list[str] = []
        self.impersonated = False
        self.hidden_by: bool | None = None
        self.taken: dict[int, Listener] = {}
        self.limit_used_up: Callable[[], str | None] = lambda: None
        self.execs_after = 0.0
        self.configuration: Mapping[str, object] | None = None
        self.replaced: list[str] = []
        self.violations: list[str] = []
        self.reads: dict[str, dict[str, bytes | None]] = {}
        self._disk = disk
        self._runtime = runtime
        self._shield = shield
        self._timeline = timeline
        self._calls = calls
        self._known: dict[tuple[int, KubeletVersion, tuple[str, ...]], _Hashes] = {}

    def healthy(self) -> bool:
        """Whether the process answers ok, or another."""
        self._calls.read("kubelet.healthy")
        if self.hidden_by is not None:
            return self.hidden_by
        return self.impersonated or (self.process is not None and self.process.healthy)

    def diverted(self) -> bool:
        """Whether a pod is reached instead."""
        self._calls.read("kubelet.diverted")
        return self.hidden_by is not None

    def arguments(self, pid: int) -> tuple[str, ...]:
        """Arguments of the running process, the program first."""
        self._calls.read("kubelet.arguments")
        process = self._of(pid)
        return (process.path, *process.arguments)

    def executable(self, pid: int) -> PurePosixPath | None:
        """Path of the running process's program; ``None`` if another file is there by now."""
        self._calls.read("kubelet.executable")
        process = self._of(pid)
        same = readable(self._disk, process.path) == program(str(process.version))
        return PurePosixPath(process.path) if same else None

    def program_stamp(self, pid: int) -> str | None:
        """The stamp of the running program, wherever its file is now."""
        self._calls.read("kubelet.program_stamp")
        if self.process is None or self.process.pid != pid:
            return None
        return self.process.stamp if self._timeline.monotonic >= self.process.started + self.execs_after else None

    def version_output(self, binary: PurePosixPath, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """What ``kubelet --version`` prints."""
        self._calls.read("kubelet.version_output")
        version = version_of(self._disk[str(binary)])
        if _refuses(version, arguments):
            return 1, f"unknown flag: {FLAG_REMOVED_IN_1_27.partition('=')[0]}"
        return 0, f"Kubernetes {version}"

    def listeners(self, ports: Collection[int], likely: Callable[[], int]) -> tuple[Listener, ...]:
        """The kubelet, at its usual ports that are free, and whoever has taken one."""
        self._calls.read("kubelet.listeners")
        own = {} if self.process is None else {PORT: "::", HEALTH_PORT: "127.0.0.1"}
        kubelets = (
            Listener(address=address, port=port, pid=self.process.pid, who="kubelet")
            for port, address in own.items()
            if self.process is not None and port not in self.process.without
        )
        return tuple(found for found in (*kubelets, *self.taken.values()) if found.port in ports)

    def is_elf(self, binary: PurePosixPath) -> bool:
        """Every program of the simulation is."""
        self._calls.read("kubelet.is_elf")
        return str(binary) in self._disk

    def used_up_limit(self, instances: int) -> str | None:
        """The limit that is."""
        self._calls.read(f"kubelet.used_up_limit {instances}")
        return self.limit_used_up()

    def environment(self, pid: int) -> Mapping[str, str]:
        """What systemd gives to every service, and nothing else."""
        self._calls.read("kubelet.environment")
        self._of(pid)
        return {"PATH": "/usr/bin:/bin"}

    def started(self, pid: int) -> float:
        """When the process was started."""
        self._calls.read("kubelet.started")
        started = self._runtime.started if pid == MAIN_PID else self._of(pid).started
        return self._timeline.wall.timestamp() - self._timeline.monotonic + started

    def configz(self, where: ServingEndpoint) -> Answer:
        """What the kubelet answers, or that access is forbidden."""
        self._calls.read(f"kubelet.configz {where.address}")
        if self.configuration is None:
            return Answer(403, "Forbidden")
        return Answer(200, json.dumps({"kubeletconfig": self.configuration}))

    def dry_run(self, binary: PurePosixPath, trial: TrialStart) -> str:
        """What the program complains about: what no kubelet accepts, or else that it finds no certificates."""
        self._calls.read(f"kubelet.dry_run {binary.name}")
        given = b"\n".join((*(word.encode() for word in trial.words), *trial.files.values())).decode(errors="replace")
        if UNKNOWN_GATE in given:
            return f"F0101 00:00:00.000000 1 server.go:1] unrecognized feature gate: {UNKNOWN_GATE}"
        if REJECTED_SETTING in given:
            return f"F0101 00:00:00.000000 1 server.go:1] invalid configuration: {REJECTED_SETTING} is not supported"
        return f"F0101 00:00:00.000000 1 server.go:1] mkdir {NOWHERE}: read-only file system"

    def start(self, arguments: tuple[str, ...], path: str = PROGRAM, *, examined: bool = True) -> None:
        """Start the program that is in place now.

        Args:
            examined: whether the executor has examined the node; if it could not at boot, files may be half exchanged.
        """
        version, pid = version_of(self._disk[path]), self._runtime.process().pid
        stamp = self.stamp(PurePosixPath(path))
        process = KubeletProcess(
            pid, version, arguments, path, stamp, started=self._timeline.monotonic, without=frozenset(self.taken)
        )
        self.wrote = []
        process.expected = dict(self._expected(process))
        self.process = process
        if unseen := self._runtime.living(everywhere=True) - self._runtime.living(everywhere=False):
            self.violations.append(f"kubelet {version} is started beside {len(unseen)} processes that nobody shows it")
        for name, content in self.reads.get(str(version), {}).items():
            if examined and readable(self._disk, name) != content:
                self.violations.append(f"kubelet {version} is started with another {name}")
        self.watch()
        behaviour = self.behaviour.get(str(version), Behaviour.WELL)
        if PORT in self.taken:
            self.write("server.go", IN_USE.format(what="listen and serve", port=PORT), severity="E")
            self._later(process, EXIT_SECONDS, self._exit)
            return
        if HEALTH_PORT in self.taken:
            self.write("server.go", IN_USE.format(what="start healthz server", port=HEALTH_PORT), severity="E")
            behaviour = Behaviour.NEVER_HEALTHY
        refused = _refuses(version, arguments) or self._lacks_room()
        if self._refuses_state(version):
            self.write("run.go", f"could not restore state from checkpoint {STATE}", severity="E")
            refused = True
        if unreadable_config := self._refused_config(arguments):
            self.write(
                "run.go",
                f'"command failed" err="failed to load kubelet config file, path: {unreadable_config}',
                severity="E",
            )
            refused = True
        if refused or behaviour is Behaviour.EXITS:
            self._later(process, EXIT_SECONDS, self._exit)
            return
        if version.minor >= FIRST_WITH_STATE:
            self._disk[STATE] = state(str(version))
        self._later(process, SYNC_SECONDS, self._sync)
        self._later(process, REPORT_SECONDS, self._report)
        if behaviour is not Behaviour.NEVER_HEALTHY:
            self._later(process, HEALTHY_SECONDS, self._become_healthy)
        if behaviour is Behaviour.SICKENS:
            self._later(process, SICKENS_SECONDS, self._sicken)
        if behaviour is Behaviour.EXITS_HEALTHY:
            self._later(process, SICKENS_SECONDS, self._exit)

    def write(self, source: str, message: str, *, severity: str = "I") -> None:
        """Log a message, as a source file of the kubelet does."""
        self.wrote.append(f"{severity}0101 00:00:00.000000       1 {source}:1] {message}")

    def stop(self) -> None:
        """End the process; containers are not affected."""
        self.process = None

    def watch(self) -> None:
        """Record every container that a running kubelet would not recognise."""
        if self.process is None:
            return
        for stored in self._runtime.containers.values():
            seen = stored.instance
            expected = self.process.expected.get((seen.pod.namespace, seen.pod.name, seen.name))
            if expected is None or seen.state is not ContainerState.RUNNING:
                continue
            for where, value in (("serves", seen.hashes.container), ("stores", stored.hashes.container)):
                if value not in expected:
                    wanted = " or ".join(sorted(expected))
                    self.violations.append(
                        f"kubelet {self.process.version} runs while {seen.label} {where} {value}, not {wanted}"
                    )

    def desired(self, version: KubeletVersion) -> list[Pod]:
        """The pods that a kubelet of this version wants to run."""
        return [*self.pods, *static_pods(self._disk, version, self.node)]

    def _expected(self, process: KubeletProcess) -> Iterator[tuple[tuple[str, str, str], frozenset[HashValue]]]:
        for pod in self.desired(process.version):
            for name, values in self._hashes(pod, process.version).compared.items():
                yield (pod.ref.namespace, pod.ref.name, name), values

    def _hashes(self, pod: Pod, version: KubeletVersion) -> "_Hashes":
        """What a version computes for a pod; once for each pod, since a kubelet synchronises every second."""
        also = self.also_accepts.get(str(version), ())
        known = self._known.get((id(pod), version, also))
        if known is None:
            known = _Hashes(
                pod=pod,
                stored={c.name: computed_hash(pod, c, version) for c in pod.containers if c.role in _KEPT_RUNNING},
                compared=dict(accepted(pod, version, also)),
            )
            self._known[id(pod), version, also] = known
        return known

    def _lacks_room(self) -> bool:
        if limit := self.limit_used_up():
            self.write("kubelet.go", f'"Failed to start cAdvisor" err="{limit}"', severity="E")
        return limit is not None

    def _refuses_state(self, version: KubeletVersion) -> bool:
        """Whether it refuses the state file, or what lies there."""
        kept = readable(self._disk, STATE)
        return STATE in self._disk if kept is None else bool(unreadable(CPU_STATE, kept, version, version))

    def _refused_config(self, arguments: tuple[str, ...]) -> str | None:
        """The path of its configuration, if that cannot be read, or is none; a test may have it nowhere."""
        paths = (word.removeprefix("--config=") for word in arguments if word.startswith("--config="))
        there = (path for path in paths if path in self._disk or any(path in read for read in self.reads.values()))
        return next((path for path in there if not _is_text(readable(self._disk, path))), None)

    def _of(self, pid: int) -> KubeletProcess:
        if self.process is None or self.process.pid != pid:
            raise Transient(f"there is no process {pid}")
        return self.process

    def _later(self, process: KubeletProcess, seconds: float, act: Callable[[KubeletProcess], None]) -> None:
        def act_if_alive() -> None:
            if self.process is process:
                act(process)

        self._timeline.after(seconds, act_if_alive)

    def _become_healthy(self, process: KubeletProcess) -> None:
        process.healthy = True

    def _sicken(self, process: KubeletProcess) -> None:
        process.healthy = False

    def _exit(self, _process: KubeletProcess) -> None:
        self.process = None
        self.exited()

    def _report(self, process: KubeletProcess) -> None:
        if self.api.reached_by(process.version):
            self.api.shows = str(process.version)
        else:
            self._later(process, SYNC_PERIOD_SECONDS, self._report)

    def _sync(self, process: KubeletProcess) -> None:
        process.knows_pods = process.knows_pods or self.api.reached_by(process.version)
        if self._runtime.answering:
            process.expected = dict(self._expected(process))
            self.watch()
            pods = self.desired(process.version)
            if process.knows_pods:
                self._remove_strangers({pod.ref for pod in pods})
            for pod in pods if process.knows_pods else static_pods(self._disk, process.version, self.node):
                self._sync_pod(pod, process)
        self._later(process, SYNC_PERIOD_SECONDS, self._sync)

    def _remove_strangers(self, wanted: set[PodRef]) -> None:
        """Stop pods that are not wanted. The cgroup of a static pod with another UID is killed whatever is refused."""
        for sandbox in list(self._runtime.sandboxes.values()):
            call = RuntimeCall(method=Method.STOP_POD_SANDBOX, sandbox=sandbox.id)
            if sandbox.ready and sandbox.pod not in wanted and (not self._refused(call) or sandbox.is_static):
                self.replaced += [
                    stored.instance.label
                    for stored in self._runtime.containers.values()
                    if stored.instance.sandbox_id == sandbox.id and stored.instance.state is ContainerState.RUNNING
                ]
                self._runtime.stop_sandbox(sandbox.id)

    def _sync_pod(self, pod: Pod, process: KubeletProcess) -> None:
        instances = [stored.instance for stored in self._runtime.containers.values()]
        if is_over(pod, instances):
            self._end(pod, [each for each in instances if each.pod == pod.ref and each.state is ContainerState.RUNNING])
            return
        sandbox = next((s for s in self._runtime.sandboxes.values() if s.ready and s.pod == pod.ref), None)
        if sandbox is None:
            if self._refused(RuntimeCall(method=Method.RUN_POD_SANDBOX, pod=pod.ref)):
                return
            sandbox = self._runtime.create_sandbox(
                pod.ref,
                host_network=bool(pod.raw["spec"].get("hostNetwork")),
                source="file" if pod.from_manifest else "api",
            )
        hashes = self._hashes(pod, process.version)
        for name, stored_value in hashes.stored.items():
            self._sync_container(pod, sandbox, name, hashes.compared.get(name), stored_value)

    def _sync_container(
        self, pod: Pod, sandbox: SandboxInstance, name: str, wanted: frozenset[HashValue] | None, new: HashValue
    ) -> None:
        newest = self._newest(sandbox, name)
        if newest is None:
            self._runtime.create_container(sandbox, name, new)
        elif newest.state is ContainerState.RUNNING:
            call = RuntimeCall(method=Method.STOP_CONTAINER, container=newest.id)
            if wanted is not None and newest.hashes.container not in wanted and not self._refused(call):
                self.replaced.append(newest.label)
                self._runtime.stop_container(newest.id)
                self.write(
                    "kuberuntime_manager.go", f"Killing container {newest.id}: definition changed, will be restarted"
                )
                self._runtime.create_container(sandbox, name, new)
        elif (container := pod.container(name)) and is_restarted(pod, container, newest):
            self._runtime.create_container(sandbox, name, new)

    def _end(self, pod: Pod, living: list[ContainerInstance]) -> None:
        """Stop what still runs in a pod that is over, then its sandbox."""
        for each in living:
            if not self._refused(RuntimeCall(method=Method.STOP_CONTAINER, container=each.id)):
                self._runtime.stop_container(each.id)
        for sandbox in [s for s in self._runtime.sandboxes.values() if s.ready and s.pod == pod.ref and not living]:
            if not self._refused(RuntimeCall(method=Method.STOP_POD_SANDBOX, sandbox=sandbox.id)):
                self._runtime.stop_sandbox(sandbox.id)

    def _refused(self, call: RuntimeCall) -> bool:
        if not self._shield.refuses(call):
            return False
        self.write("pod_workers.go", f"KillContainerError: {call.container or call.sandbox or call.pod} is guarded")
        return True

    def _newest(self, sandbox: SandboxInstance, name: str) -> ContainerInstance | None:
        instances = (stored.instance for stored in self._runtime.containers.values())
        found = [each for each in instances if each.sandbox_id == sandbox.id and each.name == name]
        return found[-1] if found else None


def _is_text(data: bytes | None) -> bool:
    with suppress(UnicodeDecodeError):
        return bool(data and data.decode())
    return False


def _refuses(version: KubeletVersion, arguments: tuple[str, ...]) -> bool:
    return history.CONTAINER_RUNTIME_FLAG_REMOVED.applies_to(version) and FLAG_REMOVED_IN_1_27 in arguments
