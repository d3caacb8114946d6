"""The systemd units that carry out a run on the host.

They exist only during a run. The executor is a service on the host rather than in a pod: with the kubelet stopped,
nothing would restart a dead pod. The kubelet's unit wants it and is ordered after it, so that a node that lost power
during a run first finishes or undoes that run when it boots.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath

from nodeupgrade import bundle
from nodeupgrade.api.json import read_record, render_record
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node import node
from nodeupgrade.node.exit_codes import EXIT_ABLE, EXIT_NEEDS_A_HUMAN
from nodeupgrade.node.facts import gather
from nodeupgrade.node.facts.device_access import Harmless, require_harmless_reload
from nodeupgrade.node.host.files.files import Files, FilesView
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.host.systemd.drop_ins import NO_CHANGE, OWN_CHANGE, OwnChange
from nodeupgrade.node.host.systemd.services import Look, ServiceManager, ServicesView
from nodeupgrade.node.node import DEAD_MAN_TIMER, KUBELET_ENVIRONMENT, LEASE_KEEPER, SHIELD, SPARE_EXECUTOR
from nodeupgrade.node.plan.plan import RunPlan, ShieldPlan
from nodeupgrade.node.rescue import script, timeouts
from nodeupgrade.node.run import restart_tuning
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.shield.shield import STATE_FILES

EXECUTOR = node.EXECUTOR
UNIT_DIRECTORY = gather.UNIT_DIRECTORY
TRANSIENT_UNIT_DIRECTORY = PurePosixPath("/run/systemd/system")
LASTING = frozenset({EXECUTOR, DEAD_MAN_TIMER})
"""Units that must survive a reboot, which ends the containers that the others are for."""
UNIT_MODE = 0o644
DEAD_MAN_SECONDS = 5
WATCHDOG_SECONDS = 10
"""After which a frozen executor is killed. It reports four times as often, from a thread that does nothing else."""
STOP_SECONDS = 5
"""Until SIGKILL: systemd before 240 knows no WatchdogSignal, and no other signal ends a process that is frozen."""
SHIELD_SECONDS_MORE = 15.0
"""Time to lower the shield and to end streams, beyond the calls that it serves to their end."""
SHIELD_DESCRIPTORS = 65536
"""Four for each connection of a client of the runtime; the usual limit of a service is 1,024."""
LEASE_KEEPER_SECONDS_MORE = 5.0
"""Generous allowance for the time from the keeper's start to the kubelet's stop."""
TRIAL = "nodeupgrade-trial.service"
UNITS = (TRIAL, script.TIMER, script.UNIT, DEAD_MAN_TIMER, LEASE_KEEPER, EXECUTOR, SPARE_EXECUTOR, SHIELD)
"""All units, in the order in which they are stopped."""
TRY_OUT = "--try-out"
"""Option that makes the executor's program only prove that it can run."""

_EXIT_MEANINGS = {203: " (systemd may not execute the program)", 226: " (systemd cannot set up its namespaces)"}


def executor_unit(bundle_root: PurePosixPath, runtime_unit: str) -> str:
    """Return the executor's service, which counts as started (``notify``) once the kubelet is fenced if necessary."""
    command = " ".join(bundle.command(bundle_root, bundle.EXECUTOR))
    return f"""\
[Unit]
Description=nodeupgrade: replaces the kubelet without restarting containers
After=local-fs.target {runtime_unit}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
StartLimitInterval=0
ExecStart={command}
{_environment(bundle_root)}
Restart=on-failure
RestartPreventExitStatus={EXIT_NEEDS_A_HUMAN}
RestartSec=1
TimeoutStartSec=120
WatchdogSec={WATCHDOG_SECONDS}
WatchdogSignal=SIGKILL
TimeoutStopSec={STOP_SECONDS}
OOMScoreAdjust=-999
Nice=-5
"""


def timer(does: str, unit: str, seconds: float, accuracy: str) -> str:
    """Return a timer that starts a unit whenever it has been inactive for so many seconds."""
    return f"""\
[Unit]
Description=nodeupgrade: {does}

[Timer]
Unit={unit}
OnActiveSec={seconds}
OnUnitInactiveSec={seconds}
AccuracySec={accuracy}
"""


DEAD_MAN = timer("restarts the executor while a run is unfinished", EXECUTOR, DEAD_MAN_SECONDS, "1")
"""The timer that restarts the executor whenever it is gone."""
RESCUE_TIMER = timer("checks that the executor still runs", script.UNIT, timeouts.LOOK_SECONDS, "500ms")
"""Starts the rescue service every few seconds; it is started before the kubelet stops."""
RESCUE = f"""\
[Unit]
Description=nodeupgrade: brings the old kubelet back if the executor cannot run
CollectMode=inactive-or-failed
ConditionPathExists={script.SCRIPT}

[Service]
Type=oneshot
ExecStart=/bin/sh {script.SCRIPT}
TimeoutStartSec=600
OOMScoreAdjust=-999
"""
"""The service that restores the old kubelet if the executor cannot run. It needs ``sh`` but no bundle."""
KUBELET_DROP_IN = f"[Unit]\nWants={EXECUTOR}\nAfter={EXECUTOR}\n"
"""Makes the kubelet start after the executor has checked the node."""


def lease_keeper_unit(bundle_root: PurePosixPath, plan: RunPlan) -> str:
    """Return the service that renews the Lease. systemd ends it if it does not end by itself."""
    seconds = plan.limits.kubelet_down + LEASE_KEEPER_SECONDS_MORE
    kubelets = ("--kubeconfig", plan.kubeconfig or "/", "--environment", str(KUBELET_ENVIRONMENT))
    options = ("--node", plan.node, "--seconds", f"{seconds:.0f}")
    command = bundle.command(bundle_root, bundle.LEASE_KEEPER, *kubelets, *options)
    return f"""\
[Unit]
Description=nodeupgrade: renews the Lease of the node while its kubelet is down
CollectMode=inactive-or-failed

[Service]
Type=simple
ExecStart={" ".join(_quoted(word) for word in command)}
{_environment(bundle_root)}
RuntimeMaxSec={seconds + LEASE_KEEPER_SECONDS_MORE:.0f}
TimeoutStopSec=2
ProtectSystem=strict
NoNewPrivileges=yes
"""


def shield_unit(bundle_root: PurePosixPath, shield: ShieldPlan) -> str:
    """Return the shield's service. It is started once it can be raised, and lowers the shield when it is stopped.

    Then it serves calls under way to their end, without anyone waiting. systemd stops it at once when the node shuts
    down, like every service. It is not restarted if it cannot read what to protect.
    """
    command = bundle.command(bundle_root, bundle.SHIELD, "--socket", shield.socket)
    return f"""\
[Unit]
Description=nodeupgrade: keeps the kubelet from ending what ran before its upgrade
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
StartLimitInterval=0
ExecStart={" ".join(_quoted(word) for word in command)}
{_environment(bundle_root)}
Restart=on-failure
RestartPreventExitStatus={EXIT_NEEDS_A_HUMAN}
RestartSec=100ms
RuntimeDirectory={SHIELD.removesuffix(".service")}
RuntimeDirectoryMode=0700
TimeoutStartSec=30
TimeoutStopSec={shield.serves_on + SHIELD_SECONDS_MORE:.0f}
LimitNOFILE={SHIELD_DESCRIPTORS}
OOMScoreAdjust=-999
Nice=-5
"""


def install(
    files: Files,
    services: ServiceManager,
    bundle_roots: tuple[PurePosixPath, PurePosixPath],
    plan: RunPlan,
    *,
    look: Look,
    kubelet_environment: Mapping[str, str] | None = None,
) -> None:
    """Install all units and start the executor, unless systemd cannot read them now. Idempotent.

    Args:
        files: of the node.
        services: of the node.
        bundle_roots: paths of both copies of the bundle on the node.
        plan: the plan to carry out.
        look: before systemd reads them.
        kubelet_environment: for the lease keeper, if it needs it and it is known now.

    Raises:
        StepFailed: a file could not be written, or systemd refused.
    """
    bundle_root, spare_root = bundle_roots
    texts = {
        DEAD_MAN_TIMER: DEAD_MAN,
        EXECUTOR: executor_unit(bundle_root, plan.runtime_unit),
        SPARE_EXECUTOR: executor_unit(spare_root, plan.runtime_unit),
        script.UNIT: RESCUE,
        script.TIMER: RESCUE_TIMER,
        LEASE_KEEPER: lease_keeper_unit(bundle_root, plan),
    }
    if plan.shield is not None:
        texts[SHIELD] = shield_unit(bundle_root, plan.shield)
    for name, text in texts.items():
        files.write(_file(name), text.encode(), mode=UNIT_MODE)
    if kubelet_environment is not None:
        files.write(KUBELET_ENVIRONMENT, json.dumps(dict(kubelet_environment)).encode())
    with _own_change(files, _drop_in(plan.swap.unit)):
        files.write(_drop_in(plan.swap.unit), KUBELET_DROP_IN.encode(), mode=UNIT_MODE)
    services.reload(look)
    services.start(EXECUTOR, wait=False)


def trial_unit(bundle_root: PurePosixPath) -> str:
    """Return a service that runs the executor's program like the executor's service, only to check that it can run.

    systemd ignores its failure (``ExecStart=-``), which would alert the node's monitoring, and the unit remains for
    inspection. As systemd then reports success even if it could not execute the program, only EXIT_ABLE counts.
    """
    command = " ".join(bundle.command(bundle_root, bundle.EXECUTOR, TRY_OUT))
    return f"""\
[Unit]
Description=nodeupgrade: checks that the executor can be started
CollectMode=inactive-or-failed

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-{command}
SuccessExitStatus={EXIT_ABLE}
{_environment(bundle_root)}
TimeoutStartSec=60
OOMScoreAdjust=-999
Nice=-5
"""


def try_out(files: Files, services: ServiceManager, bundle_root: PurePosixPath) -> str:
    """Return why systemd cannot run the executor's program; empty if the program ran and reported success.

    Raises:
        StepFailed: a file could not be written or removed, systemd does not answer, or a reload would take a device
            from a container (``DEVICES_WOULD_BE_LOST``).
    """
    path = _file(TRIAL)
    files.write(path, trial_unit(bundle_root).encode(), mode=UNIT_MODE)
    try:
        services.reload(Harmless(files, services))
        _stop(services, TRIAL)  # left by a lost agent: starting it again would do nothing and show the old result
        services.start(TRIAL)
        status = services.status(TRIAL)
        return "" if status.exit_status == EXIT_ABLE else state(services, TRIAL)
    except StepFailed as error:
        if error.reason is Reason.DEVICES_WOULD_BE_LOST:
            raise
        return f"{error}; {state(services, TRIAL)}"
    finally:
        _stop(services, TRIAL)
        files.remove(path)


def state(services: ServiceManager, unit: str) -> str:
    """Return a unit's state and its last log line, for people.

    Raises:
        StepFailed: systemd does not answer.
    """
    status = services.status(unit)
    ended = (
        f", exit status {status.exit_status}{_EXIT_MEANINGS.get(status.exit_status, '')}" if status.exit_status else ""
    )
    wrote = f"; it wrote: {lines[-1]}" if (lines := services.log(unit)) else ""
    return f"{unit} is {status.active_state} ({status.sub_state}), result {status.result}{ended}{wrote}"


def remain(files: FilesView, services: ServicesView, kubelet_unit: str, runtimes: Iterable[RuntimeKind]) -> bool:
    """Report whether a unit of a run is installed or active, or systemd still uses a drop-in of a run.

    The last two are possible without the files, if systemd could not reload.
    """
    if any(files.read(_file(unit)) is not None or not services.status(unit).down for unit in UNITS):
        return True
    ours = {kubelet_unit: (fence.drop_in(kubelet_unit),), **{kind.unit: kind.tuning for kind in runtimes}}
    return any(
        files.read(path) is not None or str(path) in services.status(unit).drop_ins
        for unit, paths in ours.items()
        for path in paths
    )


def remove(files: Files, services: ServiceManager, kubelet_unit: str, runtimes: Iterable[RuntimeKind]) -> None:
    """Remove the units, the kubelet's fence if it is down, and any restart tuning of these runtimes. Idempotent.

    Raises:
        StepFailed: the executor may still be running, or a reload would take a device from a container
            (``DEVICES_WOULD_BE_LOST``): everything is stopped, and stays until a later run.
    """
    for unit in UNITS:
        _stop(services, unit)
    _lower_shield(services)
    require_harmless_reload(files, services)
    with _own_change(files, _drop_in(kubelet_unit)):
        files.remove(_drop_in(kubelet_unit))
    for path in (*map(_file, UNITS), *script.IN_MEMORY, KUBELET_ENVIRONMENT, *STATE_FILES):
        files.remove(path)
    services.remove_mask(kubelet_unit)
    restart_tuning.remove_tuning(files, services, *runtimes)


@contextmanager
def _own_change(files: Files, drop_in: PurePosixPath) -> Iterator[None]:
    """Record how our drop-in changes its directory's time, unless other files in it came or went meanwhile."""
    directory = drop_in.parent
    others = {*files.walk(directory)} - {drop_in}
    before = files.changed(directory) or 0.0
    yield
    changed = files.changed(directory) or 0.0
    if changed != before and {*files.walk(directory)} - {drop_in} == others:
        foreign = read_record(files.read(OWN_CHANGE), NO_CHANGE).foreign(str(directory), before)
        own = OwnChange(directory=str(directory), changed=changed, before=foreign)
        files.write(OWN_CHANGE, render_record(own))


def _stop(services: ServiceManager, unit: str) -> None:
    if services.status(unit).gone:
        return
    try:
        services.stop(unit, wait=unit != SHIELD)  # it may have calls to serve to their end
    except StepFailed:
        if not services.status(unit).gone:  # a unit without a file that has just ended cannot be stopped
            raise


def _lower_shield(services: ServiceManager) -> None:
    """Make sure that the runtime's path does not lead to a shield that has ended without being lowered.

    The process lowers the shield when it is stopped. If it was killed, it does so when it is restarted.

    Raises:
        StepFailed: the shield cannot be lowered, since the runtime does not answer.
    """
    status = services.status(SHIELD)
    end = time.monotonic() + timeouts.LOWERS_WITHIN
    while status.active_state == "deactivating" and time.monotonic() < end:  # afterwards, it is lowered and serves on
        time.sleep(0.2)
        status = services.status(SHIELD)
    if status.load_state != "not-found" and status.result != "success":
        services.start(SHIELD)
        services.stop(SHIELD)
        if services.status(SHIELD).result != "success":
            raise StepFailed(f"the runtime's socket may still lead to the shield: {state(services, SHIELD)}")


def _environment(bundle_root: PurePosixPath) -> str:
    return "\n".join(f'Environment="{k}={v}"' for k, v in bundle.environment(bundle_root).items())


def _file(unit: str) -> PurePosixPath:
    return (UNIT_DIRECTORY if unit in LASTING else TRANSIENT_UNIT_DIRECTORY) / unit


def _quoted(word: str) -> str:
    """Quote a word of a command line for systemd, so that it expands no specifiers or variables."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'


def _drop_in(kubelet_unit: str) -> PurePosixPath:
    return UNIT_DIRECTORY / f"{kubelet_unit}.d" / "80-nodeupgrade-executor.conf"
