"""Known hazards of restarting CRI-O: conmons that systemd would kill, and containers that it would not find again."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.made_directories import misplaced_at
from nodeupgrade.node.runtimes.cri.restart_hazards import version_numbers
from nodeupgrade.node.runtimes.crio.configuration import CrioConfiguration, Handler
from nodeupgrade.node.runtimes.crio.next_start import CRIO
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.text import lines, parse_json, trimmed

RECORDS = ("containers.json", "volatile-containers.json")
LAYERS = ("layers.json", "volatile-layers.json")


def find_hazards(
    files: FilesView, configuration: CrioConfiguration, seen: RuntimeAtWork, *, silent: int = 0
) -> RestartHazards:
    """Return all known hazards of a restart.

    Args:
        silent: how many clients are connected without having made a call.
    """
    return RestartHazards(
        unit=tuple(_conmons_outlive_the_unit(files, seen)),
        pods=(),
        runtime=(
            *_processes_are_known(seen),
            *_handler_is_there(files, configuration),
            *_storage_knows_them(files, configuration, seen),
            *_version_is_noted(files, configuration, seen),
            *_clients_made_a_call(seen.unit.name, silent),
            *_logs_can_be_made(files),
        ),
    )


def _conmons_outlive_the_unit(files: FilesView, seen: RuntimeAtWork) -> Iterator[Finding]:
    """No conmon is in a control group of the unit, unless systemd only stops the main process.

    With ``cgroup_manager = "cgroupfs"`` on version 1 cgroups all are, in the hierarchy of systemd. A conmon that gets
    SIGTERM ends its container; one that is killed leaves a container that looks well, but its output and end are lost.
    """
    unit = seen.unit
    if unit.spares_others:
        return
    if inside := [c.label for c in seen.inventory.running() if _is_inside(files, c, unit.name)]:
        others = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, and the conmon of {inside[0]}{others} is in its control "
            "group, so restarting it would end that and the container with it; set KillMode=process"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _is_inside(files: FilesView, container: ContainerInstance, unit: str) -> bool:
    """Report whether a container's conmon is in a control group of the unit, in any hierarchy."""
    if container.monitor is None:
        return False
    data = files.read(PurePosixPath(f"/proc/{container.monitor.pid}/cgroup")) or b""
    return any(unit in line.split("/") for line in lines(data.decode(errors="replace")))


def _processes_are_known(seen: RuntimeAtWork) -> Iterator[Finding]:
    for container in seen.inventory.running():
        if container.process is None:
            detail = "it runs, but CRI-O's process for it does not exist"
        elif container.monitor is None:
            detail = f"process {container.process.pid} has no conmon, so its output and its end are lost"
        else:
            continue
        detail += "; delete the pod first"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


def _handler_is_there(files: FilesView, configuration: CrioConfiguration) -> Iterator[Finding]:
    """A starting CRI-O asks this program about every container, and takes a container for ended if it fails."""
    name = configuration.default_runtime
    path = configuration.handlers.get(name, Handler()).path
    if path.startswith("/") and not files.executable(PurePosixPath(path)):
        detail = (
            f"{path}, the program of runtime handler {name}, cannot be executed: a restart would end every container"
        )
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)


def _storage_knows_them(files: FilesView, configuration: CrioConfiguration, seen: RuntimeAtWork) -> Iterator[Finding]:
    """The storage has a record of every running container, and of its layer.

    CRI-O deletes what it finds otherwise; and if it was not stopped cleanly, it may wipe the whole storage.
    """
    places = [PurePosixPath(place) for place in (configuration.root, configuration.runroot)]
    try:
        layers_of = {
            str(record["id"]): str(record["layer"])
            for record in _records(
                files, [p / f"{configuration.driver}-containers" / n for p in places for n in RECORDS]
            )
        }
        layers = {
            str(record["id"])
            for record in _records(files, [p / f"{configuration.driver}-layers" / n for p in places for n in LAYERS])
        }
    except (StepFailed, ValueError, KeyError, TypeError) as error:
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=f"cannot read the records of CRI-O's storage: {error}")
        return
    for container in seen.inventory.running():
        layer = layers_of.get(container.id)
        if layer is None or layer not in layers:
            what = "it" if layer is None else "its layer"
            detail = f"CRI-O's storage in {configuration.root} has no record of {what}, and would lose it in a restart"
            yield Finding(
                reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=f"{detail}; delete the pod first"
            )


def _version_is_noted(files: FilesView, configuration: CrioConfiguration, seen: RuntimeAtWork) -> Iterator[Finding]:
    """The files name this minor version, which CRI-O writes there when it starts.

    Without one, a starting CRI-O takes the node for rebooted, or itself for upgraded, and removes every pod
    (``wipeIfAppropriate``).
    """
    own = version_numbers(seen.info.version)[:2]
    for path in configuration.version_files:
        noted = (files.read(PurePosixPath(path)) or b"").decode(errors="replace")
        if version_numbers(trimmed(noted).strip('"'))[:2] != own:
            detail = (
                f"{path} does not name version {'.'.join(map(str, own))} of CRI-O, which would remove every pod when "
                f"it starts; write it there: echo '\"{seen.info.version}\"' > {path}"
            )
            yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)


def _clients_made_a_call(unit: str, silent: int) -> Iterator[Finding]:
    """A stopping CRI-O waits for clients that have made no call, until systemd kills it."""
    if silent:
        clients = "1 client is" if silent == 1 else f"{silent} clients are"
        detail = (
            f"{clients} connected to CRI-O without having made a call; it would wait for that when it stops, until "
            f"TimeoutStopSec of {unit} is over (90s by default), and the kubelet would be down as long"
        )
        remedy = "end that client (see `ss --unix --processes` and the containers that are named as connected)"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail, remedy=remedy)


def _logs_can_be_made(files: FilesView) -> Iterator[Finding]:
    """CRI-O can make its directory for logs, or exits when it starts. Pods that collect logs may write there."""
    for found in misplaced_at(files, CRIO.makes):
        yield Finding(
            reason=Reason.RUNTIME_NOT_READY,
            detail=f"{found.path} {found.what}, where a starting CRI-O makes a directory, without which it exits",
            remedy="find out what has put that there, and remove it, or mount a directory in place of a link",
        )


def _records(files: FilesView, paths: list[PurePosixPath]) -> Iterator[dict[str, object]]:
    for path in paths:
        data = files.read(path)
        yield from parse_json(data) if data else ()
