"""The systemd units that carry a run out on the host.

They exist only while a run does. The executor is a service of the host, not of a pod: with the kubelet stopped,
nothing would bring a dead pod back. The kubelet's unit wants it and waits for it, so that a node which lost power
in the middle of a run starts with putting that in order.
"""

from pathlib import PurePosixPath

from nodeupgrade.agent import bundle
from nodeupgrade.engine import gather
from nodeupgrade.engine.node import DEAD_MAN_TIMER
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.services import ServiceManager

EXECUTOR = "nodeupgrade-executor.service"
UNIT_DIRECTORY = gather.UNIT_DIRECTORY
UNIT_MODE = 0o644
DEAD_MAN_SECONDS = 5
EXIT_NEEDS_A_HUMAN = 3
"""Exit status of an executor that must not go on: starting it again would change nothing."""


def executor_unit(bundle_root: PurePosixPath) -> str:
    """The service. ``notify`` makes "started" mean: after a reboot, the kubelet is fenced if need be."""
    command = " ".join(bundle.command(bundle_root, "nodeupgrade.agent.executor"))
    environment = "\n".join(f'Environment="{k}={v}"' for k, v in bundle.environment(bundle_root).items())
    return f"""\
[Unit]
Description=nodeupgrade: replaces the kubelet without restarting containers
After=local-fs.target {gather.RUNTIME_UNIT}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}
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


def install(files: Files, services: ServiceManager, bundle_root: PurePosixPath, kubelet_unit: str) -> None:
    """Write, enable and start the executor. Repeating it is harmless.

    Raises:
        StepFailed: a file could not be written, or systemd refuses.
    """
    files.write(UNIT_DIRECTORY / DEAD_MAN_TIMER, dead_man_unit().encode(), mode=UNIT_MODE)
    files.write(UNIT_DIRECTORY / EXECUTOR, executor_unit(bundle_root).encode(), mode=UNIT_MODE)
    files.write(_drop_in(kubelet_unit), kubelet_drop_in().encode(), mode=UNIT_MODE)
    services.reload()
    services.start(EXECUTOR, wait=False)


def remove(files: Files, services: ServiceManager, kubelet_unit: str) -> None:
    """Take the units away again. Repeating it is harmless.

    Raises:
        StepFailed: the executor may still be there.
    """
    for unit in (DEAD_MAN_TIMER, EXECUTOR):
        if services.status(unit).load_state != "not-found":
            services.stop(unit)
    for path in (_drop_in(kubelet_unit), UNIT_DIRECTORY / EXECUTOR, UNIT_DIRECTORY / DEAD_MAN_TIMER):
        files.remove(path)
    services.reload()


def _drop_in(kubelet_unit: str) -> PurePosixPath:
    return UNIT_DIRECTORY / f"{kubelet_unit}.d" / "80-nodeupgrade-executor.conf"
