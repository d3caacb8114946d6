"""The systemd units that carry a run out on the host.

They exist only while a run does. The executor is a service of the host, not of a pod: with the kubelet stopped,
nothing would bring a dead pod back. The kubelet's unit wants it and waits for it, so that a node which lost power
in the middle of a run starts with putting that in order.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.domain import bundle
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run import rescue_script
from nodeupgrade.domain.node.runtime import RuntimeKind
from nodeupgrade.engine.node import restart_tuning
from nodeupgrade.engine.node.facts import gather
from nodeupgrade.engine.node.node import DEAD_MAN_TIMER, LEASE_KEEPER
from nodeupgrade.ports.files import Files, FilesView
from nodeupgrade.ports.services import ServiceManager

EXECUTOR = "nodeupgrade-executor.service"
UNIT_DIRECTORY = gather.UNIT_DIRECTORY
TRANSIENT_UNIT_DIRECTORY = PurePosixPath("/run/systemd/system")
LASTING = frozenset({EXECUTOR, DEAD_MAN_TIMER})
"""Units that a reboot must not take away. The others only matter while the containers of before still run."""
UNIT_MODE = 0o644
DEAD_MAN_SECONDS = 5
LEASE_KEEPER_SECONDS_MORE = 5.0
"""From the keeper's start to the kubelet's stop, and generously so."""
TRIAL = "nodeupgrade-trial.service"
TRY_OUT = "--try-out"
"""What the executor's program is told when it is only to show that it runs."""
EXIT_ABLE = 42
"""Exit status by which it shows that; nothing else that can go wrong ends with it."""
_MEANINGS = {203: " (systemd may not execute the program)", 226: " (systemd cannot set up its namespaces)"}
EXIT_NEEDS_A_HUMAN = 3
"""Exit status of an executor that must not go on: starting it again would change nothing."""


def executor_unit(bundle_root: PurePosixPath, runtime_unit: str) -> str:
    """The service. ``notify`` makes "started" mean: after a reboot, the kubelet is fenced if need be."""
    command = " ".join(bundle.command(bundle_root, bundle.EXECUTOR))
    return f"""\
[Unit]
Description=nodeupgrade: replaces the kubelet without restarting containers
After=local-fs.target {runtime_unit}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{_environment(bundle_root)}
Restart=on-failure
RestartPreventExitStatus={EXIT_NEEDS_A_HUMAN}
RestartSec=1
TimeoutStartSec=120
OOMScoreAdjust=-999
Nice=-5
"""


def kubelet_drop_in() -> str:
    """What the kubelet's unit needs to start after the executor has looked at the node."""
    return f"[Unit]\nWants={EXECUTOR}\nAfter={EXECUTOR}\n"


def dead_man_unit() -> str:
    """The timer: whenever the executor is gone while the timer runs, start it again."""
    return f"""\
[Unit]
Description=nodeupgrade: brings the executor back while a run is unfinished

[Timer]
Unit={EXECUTOR}
OnActiveSec={DEAD_MAN_SECONDS}
OnUnitInactiveSec={DEAD_MAN_SECONDS}
AccuracySec=1
"""


def rescue_unit() -> str:
    """The service that looks for an executor which cannot run, and does without it. It needs ``sh``, and no bundle."""
    return f"""\
[Unit]
Description=nodeupgrade: brings the old kubelet back if the executor cannot run
CollectMode=inactive-or-failed
ConditionPathExists={rescue_script.SCRIPT}

[Service]
Type=oneshot
ExecStart=/bin/sh {rescue_script.SCRIPT}
TimeoutStartSec=600
OOMScoreAdjust=-999
"""


def rescue_timer() -> str:
    """Looks every few seconds; started before the kubelet stops."""
    return f"""\
[Unit]
Description=nodeupgrade: looks whether the executor still runs

[Timer]
Unit={rescue_script.UNIT}
OnActiveSec={rescue_script.LOOK_SECONDS}
OnUnitInactiveSec={rescue_script.LOOK_SECONDS}
AccuracySec=500ms
"""


def lease_keeper_unit(bundle_root: PurePosixPath, plan: RunPlan) -> str:
    """The service that renews the Lease; it ends by itself, and is ended if it does not."""
    seconds = plan.limits.kubelet_down + LEASE_KEEPER_SECONDS_MORE
    options = ("--kubeconfig", plan.kubeconfig or "/", "--node", plan.node, "--seconds", f"{seconds:.0f}")
    command = bundle.command(bundle_root, bundle.LEASE_KEEPER, *options)
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


def install(files: Files, services: ServiceManager, bundle_root: PurePosixPath, plan: RunPlan) -> None:
    """Write, enable and start the executor. Repeating it is harmless.

    Raises:
        StepFailed: a file could not be written, or systemd refuses.
    """
    texts = {
        DEAD_MAN_TIMER: dead_man_unit(),
        EXECUTOR: executor_unit(bundle_root, plan.runtime_unit),
        rescue_script.UNIT: rescue_unit(),
        rescue_script.TIMER: rescue_timer(),
        LEASE_KEEPER: lease_keeper_unit(bundle_root, plan),
    }
    for name, text in texts.items():
        files.write(_file(name), text.encode(), mode=UNIT_MODE)
    files.write(_drop_in(plan.swap.unit), kubelet_drop_in().encode(), mode=UNIT_MODE)
    services.reload()
    services.start(EXECUTOR, wait=False)


def trial_unit(bundle_root: PurePosixPath) -> str:
    """A service that starts the executor's program as the executor's does, and only looks whether it can.

    A failure is not one to systemd, or the node's monitoring would hear of it; and the unit stays to be looked at. Then
    systemd calls it a success to have skipped a program that it may not execute. So only the program's own word counts.
    """
    command = " ".join(bundle.command(bundle_root, bundle.EXECUTOR, TRY_OUT))
    return f"""\
[Unit]
Description=nodeupgrade: looks whether the executor could be started
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
    """Let systemd start the executor's program as it starts the executor.

    Returns:
        What is wrong; empty if the program ran and said that nothing is.

    Raises:
        StepFailed: a file could not be written or removed, or systemd does not answer.
    """
    path = _file(TRIAL)
    files.write(path, trial_unit(bundle_root).encode(), mode=UNIT_MODE)
    try:
        services.reload()
        _end(services, TRIAL)  # of an agent that was lost: a start would do nothing, and show what was then
        services.start(TRIAL)
        status = services.status(TRIAL)
        return "" if status.exit_status == EXIT_ABLE else state(services, TRIAL)
    except StepFailed as error:
        return f"{error}; {state(services, TRIAL)}"
    finally:
        _end(services, TRIAL)
        files.remove(path)


def state(services: ServiceManager, unit: str) -> str:
    """How a unit is, for people, and what it wrote last.

    Raises:
        StepFailed: systemd does not answer.
    """
    status = services.status(unit)
    ended = f", exit status {status.exit_status}{_MEANINGS.get(status.exit_status, '')}" if status.exit_status else ""
    wrote = f"; it wrote: {lines[-1]}" if (lines := services.log(unit)) else ""
    return f"{unit} is {status.active_state} ({status.sub_state}), result {status.result}{ended}{wrote}"


def remain(files: FilesView) -> bool:
    """Whether an executor was installed and not taken away again."""
    return files.read(_file(EXECUTOR)) is not None


def remove(files: Files, services: ServiceManager, kubelet_unit: str, runtimes: Iterable[RuntimeKind]) -> None:
    """Take the units away again, and what makes any of the runtimes start in another way. Repeating it is harmless.

    Raises:
        StepFailed: the executor may still be there.
    """
    units = (TRIAL, rescue_script.TIMER, rescue_script.UNIT, DEAD_MAN_TIMER, LEASE_KEEPER, EXECUTOR)
    for unit in units:
        _end(services, unit)
    for path in (_drop_in(kubelet_unit), *(_file(unit) for unit in units), rescue_script.SCRIPT, rescue_script.LOOK):
        files.remove(path)
    for kind in runtimes:
        restart_tuning.take_back(files, services, kind)


def _end(services: ServiceManager, unit: str) -> None:
    if services.status(unit).load_state != "not-found":
        services.stop(unit)


def _environment(bundle_root: PurePosixPath) -> str:
    return "\n".join(f'Environment="{k}={v}"' for k, v in bundle.environment(bundle_root).items())


def _file(unit: str) -> PurePosixPath:
    return (UNIT_DIRECTORY if unit in LASTING else TRANSIENT_UNIT_DIRECTORY) / unit


def _quoted(word: str) -> str:
    """A word of a command line as systemd reads it: without specifiers, variables or blanks of its own."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'


def _drop_in(kubelet_unit: str) -> PurePosixPath:
    return UNIT_DIRECTORY / f"{kubelet_unit}.d" / "80-nodeupgrade-executor.conf"
