"""Implements ContainerRuntime with containerd 1.4 to 2.3."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.api.values import PodUid
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.containerd.command_line import TUNED_CONFIG
from nodeupgrade.node.runtimes.containerd.hash_store import NAMESPACE, MetadataStore
from nodeupgrade.node.runtimes.containerd.listing import to_inventory
from nodeupgrade.node.runtimes.containerd.next_start import UNIT, ContainerdProgram, find_next_start
from nodeupgrade.node.runtimes.containerd.restart_hazards import find_hazards, forgives_errors, with_pids_asked
from nodeupgrade.node.runtimes.containerd.restart_tuning import DROP_IN, find_tuning
from nodeupgrade.node.runtimes.cri.base import CriRuntime
from nodeupgrade.node.runtimes.cri.connection import NotFound, UnaryMethod
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, is_ready, running, within
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeAtWork,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
)
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import parse_json

SNAPSHOTTERS = ("overlayfs", "native", "btrfs", "zfs", "devmapper", "blockfile", "erofs")
DATABASES = (
    PurePosixPath("io.containerd.metadata.v1.bolt", "meta.db"),
    *(PurePosixPath(f"io.containerd.snapshotter.v1.{name}", "metadata.db") for name in SNAPSHOTTERS),
    PurePosixPath("io.containerd.mount-manager.v1.bolt", "mounts.db"),
)

CONTAINERD = RuntimeKind(
    name=SupportedRuntime.CONTAINERD,
    unit=UNIT,
    other_units=True,
    tuning=(TUNED_CONFIG, DROP_IN),
    exchangeable_socket=True,
    one_monitor_per_pod=True,
    opens_logs=True,
    locks=DATABASES,
)
LIST_TASKS = UnaryMethod("/containerd.services.tasks.v1.Tasks/List", pb.ListTasksResponse)
LIST_PIDS = UnaryMethod("/containerd.services.tasks.v1.Tasks/ListPids", pb.ListPidsResponse)
PAUSED = frozenset({pb.PAUSED, pb.PAUSING})


class ContainerdRuntime(CriRuntime):
    """The containerd of one node, reached through its own API and the CRI, both on one socket."""

    kind = CONTAINERD
    METADATA = NAMESPACE
    # containerd 1.4 to 2.3 log these at level info before they act (pkg/cri … instrumented_service.go). Both log
    # formats, text and JSON, quote the message once more.
    STOP_REQUEST = re.compile(r'(?:StopContainer|StopPodSandbox|RemovePodSandbox) for "([0-9a-f]+)"')

    program: ContainerdProgram

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = MetadataStore(self.connection)
        self.program = ContainerdProgram(self.prefix)
        self._pids: Mapping[str, int] = {}

    def inventory(self, *, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        """Make up to three calls, and read in ``/proc``.

        Where no sandbox status is requested, ``host_network`` is derived from the network namespace of the sandbox's
        process, and is False for sandboxes that ended.

        PIDs are cached unless ``full``: the CRI starts each process once, and listing tasks makes containerd ask every
        shim, a third of a millisecond each. The start time in ``/proc`` detects a reused PID.
        """
        listing = self.connection.retry(lambda: self._list(refresh_pids=full))
        containers, sandboxes = within(of, listing.containers, listing.sandboxes)
        requested = frozenset(c.id for c in listing.containers if full or c.id in containers)
        statuses = Statuses(
            containers=self.cri.container_statuses(requested),
            sandboxes=self.cri.sandbox_statuses(
                s.id for s in listing.sandboxes if full or (addresses and is_ready(s)) or s.id in sandboxes
            ),
            requested=requested,
        )
        return to_inventory(listing, statuses, self.processes)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return find_next_start(self.files, self.program, unit, running)

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        paused = frozenset(id_ for id_, status in self._tasks().items() if status in PAUSED)
        places = seen.info.places or self._places()
        forgiving = forgives_errors(seen)
        unlisted = [each for each in with_pids_asked(seen) if self._lists_no_pids(each, forgiving=forgiving)]
        unlisted = [each for each in unlisted if self._lists_no_pids(each, forgiving=forgiving)]
        # Of what has ended meanwhile there is nothing to list.
        tasks = self._tasks() if unlisted else {}
        unlisted = [each for each in unlisted if tasks.get(each, pb.STOPPED) != pb.STOPPED]
        seen = replace(seen, info=replace(seen.info, places=places))
        return find_hazards(self.files, seen, paused, frozenset(unlisted), self._logs())

    def _tasks(self) -> Mapping[str, pb.TaskStatus]:
        listed = self.connection.ask(LIST_TASKS, pb.ListTasksRequest()).tasks
        return {task.id or task.container_id: task.status for task in listed}

    def _logs(self) -> Mapping[str, PurePosixPath]:
        """Return where containers log, those of pods that need not survive as well: a restart waits for any FIFO."""
        labels = {str(c.id): c.label for c in self.inventory().running()}
        paths = ((labels[id_], seen.status.log_path) for id_, seen in self.cri.container_statuses(labels).items())
        return {label: PurePosixPath(path) for label, path in paths if path}

    def _lists_no_pids(self, id_: str, *, forgiving: bool) -> bool:
        """Report whether a containerd that starts would count a shim as left over; those in Rust do not know the call.

        That they call it ``NOT_FOUND`` makes no difference to containerd.
        """
        try:
            self.connection.ask(LIST_PIDS, pb.ListPidsRequest(container_id=id_))
        except NotFound:
            return True
        except StepFailed:
            return not forgiving
        except Transient:
            self._tasks()  # raises if it is containerd that does not answer
            return not forgiving
        return False

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        return find_tuning(self.files, self.program, unit)

    def _places(self) -> RuntimePlaces | None:
        return reported_places(self.cri.status_info())

    def _list(self, *, refresh_pids: bool) -> Listing:
        containers, sandboxes = self._listed()
        if refresh_pids or not running(containers, sandboxes) <= self._pids.keys():
            tasks = self.connection.call(LIST_TASKS, pb.ListTasksRequest()).tasks
            # A shim that is too slow to answer containerd is listed with PID 0: it is asked again by the next look.
            self._pids = {task.id or task.container_id: task.pid for task in tasks if task.pid}
        return Listing(containers=containers, sandboxes=sandboxes, pids=self._pids)


def reported_places(info: Mapping[str, str]) -> RuntimePlaces | None:
    """Return containerd's directories and socket as the CRI plugin reports them; ``None`` if it does not."""
    try:
        configuration = parse_json(info["config"])
        root, state, address = (configuration[key] for key in ("containerdRootDir", "stateDir", "containerdEndpoint"))
    except (KeyError, TypeError, ValueError):
        return None
    if not (root and state):
        return None
    # The plugin reports its own directory, which is one below containerd's.
    return RuntimePlaces(root=str(root), state=str(PurePosixPath(state).parent), address=str(address))
