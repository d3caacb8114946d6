"""Gather all facts about a node, at one time. Changes nothing."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from nodeupgrade.api.json import Json, read_record
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import ContainerId
from nodeupgrade.cluster.agent_pods import agents_of
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import Refused, StepFailed, Transient
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.flags import Arguments, adapt
from nodeupgrade.kubelet.layout import KubeletLayout, config_directory, read_layout, require_absolute_paths
from nodeupgrade.kubelet.served_ports import served_ports
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet
from nodeupgrade.node import own_directories
from nodeupgrade.node.checks.facts import KubeletFacts, NodeFacts
from nodeupgrade.node.checks.files import FilesFound
from nodeupgrade.node.checks.kubelet import kubelet_is_managed
from nodeupgrade.node.checks.startup import Readiness
from nodeupgrade.node.checks.traffic import Clients, Traffic
from nodeupgrade.node.facts import admission, host, kubelet_files
from nodeupgrade.node.facts.disk_space import DiskSpace
from nodeupgrade.node.facts.kubelet_start import config_files, read_start, run_by
from nodeupgrade.node.facts.next_start import StartWithFiles, other_names
from nodeupgrade.node.facts.pod_cgroups import CGROUP_V2_MARK, cgroup_driver
from nodeupgrade.node.facts.runtime import examine_runtime, find_socket, unit_of
from nodeupgrade.node.facts.trial_start import accepted_arguments, dry_run
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounted_volumes import mounted_volumes
from nodeupgrade.node.host.files.mounts import mount_table
from nodeupgrade.node.host.systemd.services import ServicesView
from nodeupgrade.node.host.systemd.start_obstacles import start_obstacles
from nodeupgrade.node.host.systemd.stops import stopped_with
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.node import ReadOnlyNode
from nodeupgrade.node.own_directories import STATE_DIRECTORY, program_place
from nodeupgrade.node.plan.current_instances import as_they_run
from nodeupgrade.node.plan.derived_uids import RECORD, OwnUids
from nodeupgrade.node.plan.exchanged_files import FileFound, OwnPlaces, changes_of
from nodeupgrade.node.plan.mirror_pods import without_pretenders
from nodeupgrade.node.plan.request import RunRequest
from nodeupgrade.node.running_kubelet.kubelet import Kubelet
from nodeupgrade.node.running_kubelet.taken_ports import TakenPort, taken_ports
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import Inventory, StoredHashes
from nodeupgrade.node.runtimes.locked_files import locked_hazards

UNIT_DIRECTORY = PurePosixPath("/etc/systemd/system")

LARGEST_METADATA = 64 * 1024 * 1024
"""Bytes, of all containers: usually 10 to 50 KB each. To journal them takes seven times as much memory, and a second
for 10 MiB, while no kubelet runs; whoever creates a pod decides how large its environment is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningKubelet:
    """The running kubelet: its unit, program and arguments."""

    unit: UnitStatus
    program: PurePosixPath | None
    words: tuple[str, ...]
    runtime: str = ""  # name of its runtime, as the Node reports it; empty if not read


def running_kubelet(services: ServicesView, kubelet: Kubelet, unit: str) -> RunningKubelet:
    """Find the kubelet's process and program.

    Raises:
        Refused: the unit does not exist or does not run.
    """
    status = services.status(unit)
    if not status.running:
        raise Refused(
            Reason.UNSUPPORTED_SERVICE_MANAGER,
            f"unit {unit} is {status.load_state} and {status.active_state}; the kubelet must run as this unit "
            "(spec.kubelet.unit names another one)",
            check=kubelet_is_managed.name,
        )
    words = kubelet.arguments(status.main_pid)
    return RunningKubelet(unit=status, program=kubelet.executable(status.main_pid), words=words[1:])


def kubelet_layout(files: FilesView, running: RunningKubelet) -> KubeletLayout:
    """Read the running kubelet's configuration.

    Raises:
        Refused: its configuration file cannot be read.
    """
    try:
        require_absolute_paths(Configured(words=running.words))
        paths = config_files(files, running.words)
        configs = (data for path in paths if (data := files.read(path)) is not None)
        return read_layout(running.words, *configs, runtime=running.runtime)
    except ValueError as error:
        raise Refused(
            Reason.UNSUPPORTED_SERVICE_MANAGER, f"cannot determine how the kubelet is configured because {error}"
        ) from error


def gather(
    node: ReadOnlyNode,
    running: RunningKubelet,
    request: RunRequest,
    *,
    node_object: Json,
    pods: Iterable[Json],
    clients: Clients,
    manifests: Mapping[str, bytes],
    then: StartWithFiles | None = None,
) -> NodeFacts:
    """Gather the input of the checks and the plan.

    Args:
        manifests: those of the running kubelet's static pods, by path.
        then: the new kubelet's start, if it differs from now.
    """
    then = then or StartWithFiles(files=node.files, words=running.words)
    starting = replace(running, words=then.words)
    began = node.clock.monotonic()
    inventory = node.runtime.inventory(full=True)
    listing_seconds = node.clock.monotonic() - began
    mirroring = without_pretenders(map(parse_pod, pods), inventory, manifests, request.spec.node_name)
    views = as_they_run(mirroring, inventory)
    stored = _stored(node, inventory)
    layout = kubelet_layout(then.files, starting)
    changing = tuple(changes_of(then.found))
    space = _space(node.files, running, request, changing)
    stored_at = {STATE_DIRECTORY, program_place(node.files), *(PurePosixPath(file.new.path) for file in changing)}
    kubelet, runtime = _kubelet_facts(node, starting, request, space, layout.endpoint), node.runtime.info()
    unit = _bound_to_running(node, unit_of(node, runtime), running.unit.name)
    runtime_found, runtime_start = examine_runtime(node, unit, runtime, running.program)
    kubelet_start = _kubelet_start(replace(running, unit=_bound_to_running(node, running.unit)), then)
    kubelet_start = replace(kubelet_start, obstacles=start_obstacles(node.files, node.services, running.unit))
    runtime_start = replace(runtime_start, obstacles=start_obstacles(node.files, node.services, unit))
    return NodeFacts(
        node=node_object,
        pods=views,
        spec=request.spec,
        namespace=request.namespace,
        kubelet=kubelet,
        runtime=runtime,
        runtime_unit=unit,
        inventory=inventory,
        stored=stored,
        hazards=_restart_hazards(
            node,
            RuntimeAtWork(
                info=runtime,
                unit=unit,
                inventory=inventory.without(agents_of(request.run_id, request.namespace, views)),
                listing_seconds=listing_seconds,
            ),
        ),
        tuning=node.runtime.restart_tuning(unit),
        clients=node.runtime.clients(inventory, runtime.process),
        host=admission.look_at_admission(node.files, layout, views),
        runtime_found=runtime_found,
        socket=find_socket(node.files, node.runtime.kind, layout.endpoint),
        kubelet_start=kubelet_start,
        runtime_start=runtime_start,
        now=node.clock.now(),
        at=node.clock.monotonic(),
        state_free_bytes=min(space.left(path).free for path in stored_at),
        readiness=Readiness(
            current=kubelet.current,
            target=request.spec.target,
            layout=layout,
            dry_run=None if kubelet.arguments_status else _tried(node, running, request, kubelet.arguments, then),
            units=(running.unit, unit),
            unchangeable=kubelet_files.unchangeable(node.files, running.program, layout),
            mounted=kubelet_files.mounted(node.files, running.program, layout),
            runtime=runtime,
            cgroup_driver=cgroup_driver(node.files, inventory),
            cgroup_v2=node.files.read(CGROUP_V2_MARK) is not None,
            state=kubelet_files.state(node.files, layout),
            read_only=kubelet_files.read_only(node.files, *map(node.files.follow, _written_to(running, layout))),
            unfit_for_programs=own_directories.unfit_for_programs(node.files),
            volatile=_volatile(node.files, running),
            host=host.look_at_host(node, then.files, space, layout, runtime, node_object=node_object),
            taken=_taken_ports(node, running, layout),
            down_budget=request.spec.verify.kubelet_down_budget,
        ),
        traffic=Traffic(
            pods=views, current=kubelet.current, target=request.spec.target, settle=request.settle, clients=clients
        ),
        files=None
        if not request.files
        else _files(node, running, then, start=kubelet_start, runtime_unit=unit, current=kubelet.current, after=layout),
        own_uids=read_record(node.files.read(RECORD), OwnUids()),
        programs=_programs(node.files, (running.unit, unit)),
    )


def since_examined(node: ReadOnlyNode, facts: NodeFacts, came: Inventory, pods: Sequence[Pod]) -> NodeFacts:
    """Return the facts of an examination with those about containers that came since which only the node shows.

    Few, since the kubelet may be stopped already: who uses the runtime's sockets, which volumes are mounted, and what
    the kubelet has recorded of their pods, which are among those that the API server shows now.
    """
    layout = facts.readiness.layout
    return replace(
        facts,
        clients=node.runtime.clients(came, facts.runtime.process),
        host=admission.look_at_admission(node.files, layout, pods),
        readiness=replace(facts.readiness, state=kubelet_files.state(node.files, layout)),
        around=replace(facts.around, mounted=mounted_volumes(mount_table(node.files))),
    )


def _restart_hazards(node: ReadOnlyNode, seen: RuntimeAtWork) -> RestartHazards:
    found = node.runtime.restart_hazards(seen)
    locks = () if seen.info.places is None else node.runtime.kind.locked_in(seen.info.places.root)
    return replace(found, runtime=(*found.runtime, *locked_hazards(node.files, locks, seen.unit.main_pid)))


def _taken_ports(node: ReadOnlyNode, running: RunningKubelet, layout: KubeletLayout) -> tuple[TakenPort, ...]:
    served = served_ports(layout.settings)
    main_pid = running.unit.main_pid
    listeners = node.kubelet.listeners([each.port for each in served], lambda: main_pid)
    return tuple(taken_ports(served, listeners, main_pid, diverted=node.kubelet.diverted))


def _kubelet_start(running: RunningKubelet, then: StartWithFiles) -> UnitStart:
    """Return how the kubelet is to be started, with the configuration that it will read."""
    run = run_by(then.files, running.unit, running.program)
    directory = config_directory(then.words)
    more = (*then.changed, *map(str, then.configuration), *run)
    return read_start(then.files, running.unit, more, () if directory is None else (directory,))


def _programs(files: FilesView, units: tuple[UnitStatus, ...]) -> dict[str, str]:
    """Find the programs that units name without a path, except those of units with a search path of their own."""
    searched = () if any(unit.search_path for unit in units) else admission.SEARCHED
    bare = {command.program for unit in units for command in unit.commands if "/" not in command.program}
    places = {name: [directory / name for directory in searched if name] for name in bare}
    return {name: next((str(path) for path in paths if files.executable(path)), "") for name, paths in places.items()}


def _files(
    node: ReadOnlyNode,
    running: RunningKubelet,
    then: StartWithFiles,
    *,
    start: UnitStart,
    runtime_unit: UnitStatus,
    current: KubeletVersion | None,
    after: KubeletLayout,
) -> FilesFound:
    """Return what the files change, and whether the old kubelet would start with the old ones."""
    back, before = None, kubelet_layout(node.files, running)
    named = (path for unit in (running.unit, runtime_unit) for path in (unit.fragment_path, *unit.drop_ins))
    if running.program is not None and then.changed:
        as_now = StartWithFiles(files=node.files, words=running.words)
        back = dry_run(node, running.program, as_now, pid=running.unit.main_pid)
    return FilesFound(
        found=then.found,
        unit=running.unit.name,
        own=OwnPlaces.of(before, node.files.follow, filter(None, named)),
        current=current,
        before=before,
        after=after,
        way_back=back,
        names=other_names(node.files, start, then.changed),
    )


def _tried(
    node: ReadOnlyNode, running: RunningKubelet, request: RunRequest, arguments: Arguments, then: StartWithFiles
) -> str | None:
    """Return the new kubelet's verdict on its configuration; ``None`` if there is no such program."""
    if isinstance(request.replacement, Finding):
        return None
    then = replace(then, words=arguments.words)
    return dry_run(node, request.replacement.program, then, pid=running.unit.main_pid)


def _written_to(running: RunningKubelet, layout: KubeletLayout) -> tuple[PurePosixPath, ...]:
    """Return what a run, or a runtime that starts, writes to: the latter loses containers whose logs it cannot open."""
    programs = () if running.program is None else (running.program.parent,)
    return (*programs, UNIT_DIRECTORY, STATE_DIRECTORY, PurePosixPath(layout.logs))


def _volatile(files: FilesView, running: RunningKubelet) -> tuple[str, ...]:
    """Return the directories that a run needs after a boot and a boot empties; none if it empties the program's."""
    if running.program is None or own_directories.volatile(files, (running.program.parent,)):
        return ()
    needed = dict.fromkeys((UNIT_DIRECTORY, STATE_DIRECTORY, program_place(files)))
    return own_directories.volatile(files, needed)


def _bound_to_running(node: ReadOnlyNode, unit: UnitStatus, *down: str) -> UnitStatus:
    """Return a unit bound to all units that its stop affects, which are those that run."""
    return replace(unit, bound_by=stopped_with(node.services, unit, *down))


def _stored(node: ReadOnlyNode, inventory: Inventory) -> dict[ContainerId, StoredHashes]:
    """Return the stored hashes of what runs. No more is read than is kept, whatever it is that runs."""
    stored, sizes = dict[ContainerId, StoredHashes](), dict[str, int]()
    for container in inventory.running():
        try:
            images = node.runtime.before_images([container.id])
        except StepFailed as error:
            raise Refused(Reason.STORED_HASH_NOT_REPRODUCED, str(error)) from error
        for image in images.values():
            stored[image.container_id] = image.hashes
            sizes[container.label] = len(image.data)
        if sum(sizes.values()) > LARGEST_METADATA:
            largest = max(sizes, key=lambda label: sizes[label])
            raise Refused(
                Reason.STORED_HASH_NOT_REPRODUCED,
                f"the runtime stores more than {LARGEST_METADATA >> 20} MiB about the containers on this node, which "
                f"a run cannot keep, much of it about {largest} ({sizes[largest] >> 20} MiB): recreate it with a "
                "smaller environment",
            )
    return stored


def _real(files: FilesView, program: str) -> str | None:
    path = files.real(PurePosixPath(program)) if program.startswith("/") else None
    return None if path is None else str(path)


def _kubelet_facts(
    node: ReadOnlyNode, running: RunningKubelet, request: RunRequest, space: DiskSpace, endpoint: str
) -> KubeletFacts:
    program, found = running.program, request.replacement
    staged = program is None or not (isinstance(found, Finding) or found.takes)
    current = None if program is None else parse_version(version_of(node.kubelet, program)[0])

    def adapted(remove: Collection[str]) -> Arguments:
        target = request.spec.target
        return adapt(running.words, running=current, target=target, endpoint=endpoint, remove=remove)

    known = KubeletFacts(
        unit=running.unit,
        program=None if program is None else str(program),
        started=_real(node.files, running.unit.program),
        words=running.words,
        current=current,
        since=node.kubelet.started(running.unit.main_pid),
        before=None if program is None else node.files.digest(program),
        arguments=adapted(request.spec.kubelet.remove_flags),
        free_bytes=space.left(STATE_DIRECTORY if program is None else program.parent).free,
    )
    if program is not None and not staged:
        known = replace(known, unstaged_free_bytes=node.files.usage(program.parent).free)
    if isinstance(found, Finding):
        return replace(known, missing=found)
    version, output = version_of(node.kubelet, found.program)
    arguments, status, complaint = accepted_arguments(node.kubelet, adapted, request, found.program)
    return replace(
        known,
        staged_version=version,
        staged_output=output,
        staged_is_elf=node.kubelet.is_elf(found.program),
        after=found.digest,
        arguments=arguments,
        arguments_status=status,
        arguments_output=complaint,
    )


def _space(
    files: FilesView, running: RunningKubelet, request: RunRequest, changing: tuple[FileFound, ...]
) -> DiskSpace:
    """Return the space on the node once the run has stored its programs, both kubelets and the files that change.

    A file is staged, copied to its place, and kept as it was.
    """
    program, found, more = running.program, request.replacement, dict[PurePosixPath, int]()
    for file in changing:
        path = file.new.path
        more[PurePosixPath(path)] = more[PurePosixPath(staged_path(path))] = len(file.new.content)
        if file.before is not None:
            more[PurePosixPath(backup_path(path))] = files.size(PurePosixPath(path)) or 0
    if program is not None:
        staged = 0 if isinstance(found, Finding) else found.takes
        more[program.parent] = (files.size(program) or 0) + staged
    return DiskSpace.once_stored(files, more)


VERSION_LINE = re.compile(r"^Kubernetes (\S+)\s*$", re.ASCII | re.MULTILINE)


def version_of(kubelet: Kubelet, program: PurePosixPath) -> tuple[str, str]:
    """Return the version that a program reports, and everything that it printed."""
    try:
        status, output = kubelet.version_output(program)
    except Transient as error:
        return "", str(error)
    said = VERSION_LINE.search(output) if status == 0 else None
    return said.group(1) if said else "", output


def parse_version(text: str | None) -> KubeletVersion | None:
    """Return a version that a program reports; ``None`` if it reports none that is understood."""
    try:
        return KubeletVersion.parse(text) if text else None
    except UnsupportedKubelet:
        return None
