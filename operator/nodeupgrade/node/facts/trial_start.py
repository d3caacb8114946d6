"""Let the new kubelet try the command line and the configuration that it would be started with. Changes nothing."""

from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from nodeupgrade.api.run_settings import FlagPolicy
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelet.flags import Arguments, rejected_flag
from nodeupgrade.kubelet.layout import config_directory
from nodeupgrade.kubelet.trial_command import dry_run_arguments
from nodeupgrade.node.facts.next_start import StartWithFiles
from nodeupgrade.node.node import ReadOnlyNode
from nodeupgrade.node.plan.request import RunRequest
from nodeupgrade.node.running_kubelet.kubelet import Kubelet, TrialStart

STRIPPED_FLAGS_LIMIT = 40
OF_THE_PROCESS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"})
"""Variables that systemd sets for one particular process."""


def accepted_arguments(
    kubelet: Kubelet, adapted: Callable[[Collection[str]], Arguments], request: RunRequest, program: PurePosixPath
) -> tuple[Arguments, int, str]:
    """Let the new program parse the command line; with ``flagPolicy: Strip``, remove each flag that it rejects."""
    remove, strips = set(request.spec.kubelet.remove_flags), request.spec.kubelet.flag_policy is FlagPolicy.STRIP
    for _ in range(STRIPPED_FLAGS_LIMIT):
        arguments = adapted(remove)
        try:
            status, output = kubelet.version_output(program, arguments.words)
        except Transient as error:
            return arguments, 1, str(error)
        flag = rejected_flag(output) if status != 0 and strips else None
        if flag is None or flag in remove:
            return arguments, status, output
        remove.add(flag)
    return arguments, status, output


def dry_run(node: ReadOnlyNode, program: PurePosixPath, start: StartWithFiles, *, pid: int) -> str:
    """Return the output of a kubelet, new or old, that is started like this, or why it could not be tried.

    It gets the environment of the running kubelet, ``pid``, and the configuration files that it would read.
    """
    directory = config_directory(start.words)
    there = directory is not None and node.files.changed(PurePosixPath(directory)) is not None
    try:
        environment = start.environment(node.kubelet.environment(pid))
        trial = TrialStart(
            words=dry_run_arguments(start.words),
            environment={name: value for name, value in environment.items() if name not in OF_THE_PROCESS},
            files={str(path): data for path in start.configuration if (data := start.files.read(path)) is not None},
            directories=(directory,) if directory is not None and there else (),
        )
        return node.kubelet.dry_run(program, trial)
    except (StepFailed, Transient) as error:
        return str(error)
