"""The simulation's ports as worlds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nodeupgrade.api.values import AwakeTime, ContainerId, PodRef, PodUid
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.dpkg_database import PROGRAM, STATUS
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.shield.call_admission import PATIENCE_SECONDS
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall
from tests.builders.shielded import shielded_plan
from tests.contract.node.installed import INSTALLED, KUBELET
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.runtime import MAIN_PID, SimulatedRuntime
from tests.doubles.node.containers.runtime_restart import KIND, REMEMBERING, RUNTIME_PROGRAM, RUNTIME_UNIT, STOPPING
from tests.doubles.node.packages import SimulatedPackages
from tests.doubles.node.services import KUBELET_UNIT
from tests.doubles.node.simulated import SimulatedNode
from tests.doubles.node.storage.disk import ModelDisk
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

ZERO = HashValue("0")


class SimulatedRuntimeWorld:
    """A RuntimeWorld in memory."""

    def __init__(self, kind: RuntimeKind = KIND) -> None:
        timeline = Timeline()
        self.runtime = SimulatedRuntime(timeline, Calls(timeline), kind=kind)
        self._pods = 0

    @property
    def unit(self) -> UnitStatus:
        return UnitStatus(
            name=RUNTIME_UNIT, load_state="loaded", active_state="active", sub_state="running", main_pid=MAIN_PID,
            program=RUNTIME_PROGRAM, command=(RUNTIME_PROGRAM,),
        )  # fmt: skip

    def start_container(self, hashes: StoredHashes, *, texts: tuple[str, ...] = ()) -> ContainerId:
        self._pods += 1
        pod = PodRef(namespace="contract", name=f"pod{self._pods}", uid=PodUid(f"uid{self._pods}"))
        sandbox = self.runtime.create_sandbox(pod, host_network=True, source="api")
        made = self.runtime.create_container(sandbox, "main", hashes.container or ZERO)
        stored = self.runtime.containers[made.id]
        stored.hashes, stored.instance = hashes, replace(stored.instance, hashes=hashes)
        stored.other += "".join(texts)
        return made.id

    def remove_container(self, container_id: ContainerId) -> None:
        gone = self.runtime.containers.pop(container_id)
        del self.runtime.sandboxes[gone.instance.sandbox_id]

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        self.runtime.containers[container_id].other = "another log path"

    def restart(self) -> None:
        self.runtime.restart()

    def restart_in_error(self) -> None:
        self.restart()


class RememberingRuntimeWorld(SimulatedRuntimeWorld):
    """One that remembers that a container ended."""

    def __init__(self) -> None:
        super().__init__(REMEMBERING)

    def restart_in_error(self) -> None:
        self.runtime.troubles.errs_about.update(self.runtime.containers)
        self.restart()


class StoppingRuntimeWorld(SimulatedRuntimeWorld):
    """A RuntimeWorld in memory, with a runtime that is stopped for its hashes to be written, as Docker is."""

    def __init__(self) -> None:
        super().__init__(STOPPING)


class SimulatedShieldWorld:
    """A ShieldWorld in memory."""

    def __init__(self) -> None:
        self._node = SimulatedNode(version="v1.30.14", pods=[])
        self._node.kubelet.stop()  # it would call, too
        runtime = self._node.runtime
        pod = PodRef(namespace="contract", name="pod", uid=PodUid("uid"))
        made = runtime.create_container(runtime.create_sandbox(pod, host_network=True, source="api"), "main", ZERO)
        self._container = made.id
        self.shield = self._node.shield
        self.shield.plan = replace(shielded_plan(), baseline=runtime.inventory(full=True), containers=())
        self.shield.start()

    def refuses(self) -> bool:
        call = RuntimeCall(method=Method.STOP_CONTAINER, container=self._container)
        refused = self.shield.refuses(call)
        if self.shield.waiting():  # as a kubelet, whose call waits meanwhile
            self._node.timeline.advance(PATIENCE_SECONDS)
            refused = self.shield.refuses(call)
        return refused

    def crash(self) -> None:
        self.shield.running = False

    def start(self) -> None:
        self.shield.start()

    def restart_runtime(self) -> None:
        self.shield.runtime_restarted()


class SimulatedServicesWorld:
    """A ServicesWorld in memory: a kubelet."""

    def __init__(self) -> None:
        self._node = SimulatedNode(version="v1.30.14", pods=[])
        self._node.timeline.suspend(3600)
        self.services = self._node.services
        self.unit = KUBELET_UNIT

    def awake(self) -> AwakeTime:
        return self._node.ports.clock.awake()

    def write_drop_in(self, text: str) -> str:
        path = f"/etc/systemd/system/{self.unit}.d/10-contract.conf"
        self._node.disk[path] = text.encode()
        return path

    def kill(self) -> None:
        self._node.kubelet.process = None
        self._node.kubelet.exited()
        self._node.timeline.advance(60)


class SimulatedPackagesWorld:
    """A PackagesWorld in memory."""

    package = KUBELET

    def __init__(self) -> None:
        self._disk = {str(STATUS): INSTALLED, str(PROGRAM): b"dpkg"}
        self.packages = SimulatedPackages(self._disk, Calls(Timeline()))

    def status(self) -> bytes:
        return self._disk[str(STATUS)]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.packages.user = "apt-get (process 7)"
        yield
        self.packages.user = ""

    def interrupt(self) -> None:
        self.packages.interrupted = True


class SimulatedFilesWorld:
    """A FilesWorld in memory."""

    def __init__(self, _root: Path) -> None:
        timeline = Timeline()
        self.files: Files = SimulatedFiles({}, Calls(timeline))
        self.directory = PurePosixPath("/var/lib/thing")


class ModelDiskWorld:
    """The real adapter on a disk in memory."""

    def __init__(self, _root: Path) -> None:
        self.files: Files = HostFiles(disk=ModelDisk())
        self.directory = PurePosixPath("/var/lib/thing")
