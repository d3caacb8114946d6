"""One whole node: disk, runtime, kubelet and service manager, which can lose power at any moment."""

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.node.node import Node
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.containers.runtime import SimulatedRuntime
from tests.doubles.node.containers.runtime_restart import KIND, RUNTIME_PROGRAM
from tests.doubles.node.kubelet import PROGRAM, SimulatedKubelet, program
from tests.doubles.node.packages import SimulatedPackages
from tests.doubles.node.services import UNIT_DIRECTORY, UNIT_FILES, SimulatedServices
from tests.doubles.node.shield import SimulatedShield
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.storage.journal import SimulatedJournal
from tests.doubles.node.timeline import SimulatedClock, Timeline

SECONDS_TO_SETTLE = 5.0


class SimulatedNode:
    """A node that has run its pods for a while.

    Args:
        version: of the kubelet, for example ``v1.30.14``.
        pods: as the API serves them.
        manifests: static pods, content by file name.
        arguments: the kubelet's.
        disk: where its files are; in memory by default.
        kind: the kind of its runtime.
    """

    def __init__(
        self,
        *,
        version: str,
        pods: Iterable[Json],
        manifests: Mapping[str, bytes] | None = None,
        arguments: tuple[str, ...] = (),
        name: str = "node-a",
        disk: MutableMapping[str, bytes] | None = None,
        kind: RuntimeKind = KIND,
    ) -> None:
        self.name = name
        self.timeline = Timeline()
        self.calls = Calls(self.timeline)
        self.disk: MutableMapping[str, bytes] = {} if disk is None else disk
        self.disk[PROGRAM] = program(version)
        self.disk[RUNTIME_PROGRAM] = b"containerd 2.1.9"
        self.disk.update({f"{UNIT_DIRECTORY}/{unit}": text for unit, text in UNIT_FILES.items()})
        self.disk.update({f"{MANIFESTS}/{file}": data for file, data in (manifests or {}).items()})
        self.runtime = SimulatedRuntime(self.timeline, self.calls, self.disk, kind)
        self.shield = SimulatedShield(self.disk, self.runtime, self.timeline, self.calls)
        self.kubelet = SimulatedKubelet(
            node=name,
            disk=self.disk,
            runtime=self.runtime,
            shield=self.shield,
            timeline=self.timeline,
            calls=self.calls,
        )
        self.services = SimulatedServices(
            disk=self.disk,
            kubelet=self.kubelet,
            runtime=self.runtime,
            shield=self.shield,
            timeline=self.timeline,
            calls=self.calls,
        )
        self.journal = SimulatedJournal(self.calls)
        self.files = SimulatedFiles(self.disk, self.calls)
        self.packages = SimulatedPackages(self.disk, self.calls)
        self.ports = Node(
            runtime=self.runtime,
            services=self.services,
            files=self.files,
            kubelet=self.kubelet,
            clock=SimulatedClock(self.timeline),
            shield=self.shield,
            packages=self.packages,
            shown_kubelet=self.kubelet.api.shown,
            failpoint=self.calls.failpoint,
        )
        self.calls.watch = self.kubelet.watch
        self.shield.owners = self._owner_changes
        self.shield.shuts_down = lambda: self.services.shutting_down
        self.kubelet.pods = [parse_pod(pod) for pod in pods]
        self.services.arguments = arguments
        self.power_on()
        self.timeline.advance(SECONDS_TO_SETTLE)

    def power_off(self) -> None:
        """Lose power: every process and everything that was only in memory is gone."""
        self.kubelet.stop()
        self.runtime.power_off()
        self.shield.power_off()
        self.timeline.reboot()
        for path in [path for path in self.disk if path.startswith("/run/")]:
            del self.disk[path]

    def power_on(self, before_kubelet: Callable[[], bool] = lambda: True) -> None:
        """Boot: systemd, the runtime, then whatever is ordered before the kubelet, then the kubelet unless fenced.

        Args:
            before_kubelet: returns false if it has failed; systemd starts the kubelet nevertheless.
        """
        self.services.power_on()
        self.runtime.power_on()
        examined = before_kubelet()
        if not self.services.unit.fenced:
            self.services.start_kubelet(examined=examined)

    def inventory(self) -> Inventory:
        """What the runtime serves, without passing through a port."""
        return Inventory(
            containers=tuple(stored.instance for stored in self.runtime.containers.values()),
            sandboxes=tuple(self.runtime.sandboxes.values()),
        )

    def _owner_changes(self) -> Evidence:
        return self.ports.owner_changes()  # as of now: tests exchange this port
