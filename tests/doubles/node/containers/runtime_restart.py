"""How the simulated runtime restarts: its configuration in TOML, and more time for monitors on request."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.description import (
    TRANSIENT_UNITS,
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
    TuningFile,
)
from nodeupgrade.node.runtimes.inventory import Inventory

RUNTIME_UNIT = "containerd.service"
RUNTIME_PROGRAM = "/usr/bin/containerd"
RUNTIME_CONFIG = "/etc/containerd/config.toml"
PLACES = RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/containerd/containerd.sock")
TUNED_CONFIG = "/run/nodeupgrade-containerd.toml"
TUNING_DROP_IN = str(TRANSIENT_UNITS / f"{RUNTIME_UNIT}.d" / "zz-nodeupgrade-shims.conf")
DATABASE = PurePosixPath("meta.db")
KIND = RuntimeKind(
    name=SupportedRuntime.CONTAINERD,
    unit=RUNTIME_UNIT,
    tuning=(PurePosixPath(TUNED_CONFIG), PurePosixPath(TUNING_DROP_IN)),
    exchangeable_socket=True,
    one_monitor_per_pod=True,
    opens_logs=True,
    locks=(DATABASE,),
)

STOPPING = replace(KIND, stops_for_rewriting=True, exchangeable_socket=False, one_monitor_per_pod=False)
"""A kind that writes over its metadata while it runs, and whose socket nobody can take."""
REMEMBERING = replace(KIND, remembers_ends=True, needs_free_path=True, one_monitor_per_pod=False)
"""A kind that writes down that a container ended, and asks nobody again; nor does it start where anybody listens."""

_TUNED = ("--config", TUNED_CONFIG)


def is_tuned(words: tuple[str, ...]) -> bool:
    """Report whether this command line gives monitors more time."""
    return words[1:3] == _TUNED


def places(disk: Mapping[str, bytes], words: tuple[str, ...]) -> RuntimePlaces:
    """Return where a runtime with this command line keeps everything.

    Raises:
        StepFailed: it cannot read its configuration.
    """
    own = _read(disk, RUNTIME_CONFIG)
    if is_tuned(words):
        _read(disk, TUNED_CONFIG)
    return RuntimePlaces(root=str(own.get("root", PLACES.root)), state=PLACES.state, address=PLACES.address)


def next_start(disk: Mapping[str, bytes], unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
    """Report how it would come back."""
    words = () if running is None else running.words
    found, complaint = None, ""
    try:
        found = places(disk, (RUNTIME_PROGRAM,))
    except StepFailed as error:
        complaint = f"asked for its configuration {RUNTIME_CONFIG}, it says: {error}"
    return NextStart(
        program=unit.program,
        as_it_runs=unit.command == ((words[0], *words[3:]) if is_tuned(words) else words),
        places=found,
        complaint=complaint,
        files=(RUNTIME_CONFIG,),
    )


def hazards(inventory: Inventory, paused: Collection[ContainerId], *, split: bool) -> RestartHazards:
    """Report which containers would be lost: what is paused, and pods with several monitors, unless all have."""
    detail = "it has a monitor of its own, so that any restart of the runtime would kill it; delete the pod"
    of_their_own = (
        Finding(reason=Reason.RUNTIME_RESTART_WOULD_KILL_POD, subject=container.label, detail=detail)
        for container, _ in (inventory.under_other_monitors() if split else ())
    )
    not_found_again = (
        Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail="it is paused")
        for container in inventory.running()
        if container.id in paused
    )
    return RestartHazards(pods=(*of_their_own, *not_found_again))


def tuning() -> RestartTuning:
    """Give monitors more time, by a configuration and a drop-in that starts the runtime with it."""
    start = f"ExecStart={RUNTIME_PROGRAM} {' '.join(_TUNED)}"
    return RestartTuning(
        why="monitors get more time to answer the restarted runtime",
        files=(
            TuningFile(path=TUNED_CONFIG, content=b"[timeouts]\n"),
            TuningFile(path=TUNING_DROP_IN, content=f"[Service]\nExecStart=\n{start}\n".encode()),
        ),
    )


def _read(disk: Mapping[str, bytes], path: str) -> dict[str, object]:
    try:
        return tomllib.loads(disk.get(path, b"").decode())
    except (OSError, ValueError) as error:
        raise StepFailed(f"containerd: failed to load TOML: {path}: {error}") from error
