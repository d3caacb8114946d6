"""Let the new kubelet try the configuration that it would be started with. Changes nothing."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.engine.node.facts.next_start import StartWithFiles
from nodeupgrade.engine.node.node import ReadOnlyNode
from nodeupgrade.kubelet.dry_run import started_with
from nodeupgrade.kubelet.layout import config_directory
from nodeupgrade.ports.node.kubelet import TrialStart

OF_THE_PROCESS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"})
"""Variables by which systemd connects itself with one process."""


def dry_run(
    node: ReadOnlyNode, program: PurePosixPath, start: StartWithFiles, *, pid: int, read: Iterable[PurePosixPath]
) -> str:
    """Return what a program prints that is started like this, or why it could not be tried.

    Args:
        program: the new kubelet, or the old one.
        start: the arguments and the files that it would be started with.
        pid: the running kubelet, whose environment it gets.
        read: the configuration files that it would read.
    """
    directory = config_directory(start.words)
    there = directory is not None and node.files.changed(PurePosixPath(directory)) is not None
    try:
        environment = start.environment(node.kubelet.environment(pid))
        trial = TrialStart(
            words=started_with(start.words),
            environment={name: value for name, value in environment.items() if name not in OF_THE_PROCESS},
            files={str(path): data for path in read if (data := start.files.read(path)) is not None},
            directories=(directory,) if directory is not None and there else (),
        )
        return node.kubelet.dry_run(program, trial)
    except (StepFailed, Transient) as error:
        return str(error)
