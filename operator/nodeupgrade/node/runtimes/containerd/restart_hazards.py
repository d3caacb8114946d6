"""Known hazards of restarting containerd: its unit, its version, and shims that it may fail to reconnect to."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.layout import above_logs
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.runtimes.cri.restart_hazards import unit_hazards, version_numbers
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.text import one_line

SHIM_SECONDS = 2.5
"""Half the time that a starting containerd waits for a shim (io.containerd.timeout.shim.load, 5 s)."""

# Ranges of versions (first, last) that must not be restarted, with the consequence.
UNRESTARTABLE = (
    ((1, 6, 9), (1, 6, 13), "forgets the addresses of pods when it is restarted (#7843), so any kubelet replaces them"),
    ((2, 0, 0), (2, 0, 5), "may not start again after a restart (#10848)"),
    ((2, 1, 0), (2, 1, 3), "may not start again after a restart (#10848)"),
    ((2, 3, 0), (2, 3, 1), "may end a container that is created while others are looked at (#13512)"),
)

ASKS_FOR_PIDS, FORGIVES_ERRORS = (1, 7, 0), (2, 3, 4)
"""The first version whose start takes a shim that does not list the processes of its container for one that was left
over (#6866), and the first that does so only if there are none, or the shim says that it finds nothing (#13790).
"""

BUNDLES = PurePosixPath("io.containerd.runtime.v2.task", "k8s.io")
"""Below the directory for state: one directory for each container and sandbox."""
SHIM_PATH = "shim-binary-path"
_SEPARATORS = 2
"""Underscores in the name of a pod's directory of logs, which has namespace, name and UID."""


def find_hazards(
    files: FilesView,
    seen: RuntimeAtWork,
    paused: frozenset[str] = frozenset(),
    unlisted: frozenset[str] = frozenset(),
    logs: Mapping[str, PurePosixPath] = MappingProxyType({}),
) -> RestartHazards:
    """Return all known hazards of a restart.

    Args:
        files: the files of the node.
        seen: what must survive it.
        paused: ids of containers and sandboxes whose task is paused.
        unlisted: ids of those with_pids_asked() of which no processes can be listed.
        logs: the files to which all containers log that run, by their label.
    """
    return RestartHazards(
        unit=unit_hazards(seen.unit),
        pods=(
            *_pods_have_one_shim(seen.inventory),
            *_shims_are_installed(files, seen),
            *_nothing_is_paused(seen.inventory, paused),
            *_processes_are_listed(seen, unlisted),
            *_logs_can_be_opened(files, logs),
        ),
        runtime=(*_version_survives_restarts(seen), *_shims_answer(seen)),
    )


def _pods_have_one_shim(inventory: Inventory) -> Iterator[Finding]:
    """Every container is served by the shim of its sandbox, where shims serve whole pods.

    A containerd that cannot reach a sandbox's shim within 100 ms starts a second one for the container, and the
    first one loses its socket. Such a pod runs well until containerd is restarted, which kills it.
    """
    for container, shim in inventory.under_other_monitors():
        detail = (
            "it has a shim of its own beside that of its pod, so any restart of the runtime would kill the pod "
            f"(process {shim.pid}); delete the pod first"
        )
        yield Finding(reason=Reason.RUNTIME_RESTART_WOULD_KILL_POD, subject=container.label, detail=detail)


def _shims_are_installed(files: FilesView, seen: RuntimeAtWork) -> Iterator[Finding]:
    """The program of every shim still is where it was when the shim was started.

    containerd keeps that path beside the shim's socket. If there is nothing at the path when containerd starts, it does
    not connect to the shim and cleans up what it manages (core/runtime/v2/shim_load.go).
    """
    if seen.info.places is None:
        return
    bundles = PurePosixPath(seen.info.places.state) / BUNDLES
    pods = {str(sandbox.id): str(sandbox.pod) for sandbox in seen.inventory.sandboxes}
    pods |= {str(container.id): str(container.pod) for container in seen.inventory.running()}
    recorded = {id_: (files.read(bundles / id_ / SHIM_PATH) or b"").decode(errors="replace") for id_ in pods}
    gone = {path for path in {*recorded.values()} if path.startswith("/") and files.real(PurePosixPath(path)) is None}
    for pod, path in dict.fromkeys((pods[id_], path) for id_, path in recorded.items() if path in gone):
        detail = f"its shim was started from {path}, which is gone: any restart of the runtime would kill the pod"
        remedy = f"put the program back, at least as a link at {path}, or delete the pod"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=pod, detail=detail, remedy=remedy)


def with_pids_asked(seen: RuntimeAtWork) -> Iterator[str]:
    """Yield the ids of whose processes a starting containerd of this version asks; from 2.0 on it knows sandboxes."""
    version = version_numbers(seen.info.version)
    if version >= ASKS_FOR_PIDS:
        yield from (container.id for container in seen.inventory.running())
        yield from (sandbox.id for sandbox in seen.inventory.sandboxes if sandbox.ready and version < (2,))


def forgives_errors(seen: RuntimeAtWork) -> bool:
    """Report whether a containerd of this version keeps a shim that fails to list processes, if it knows the call."""
    return version_numbers(seen.info.version) >= FORGIVES_ERRORS


def _processes_are_listed(seen: RuntimeAtWork, unlisted: frozenset[str]) -> Iterator[Finding]:
    """Every shim lists the processes of its container, as a starting containerd has it do (``runc ps``).

    Otherwise containerd shows a container as ended that runs on, and no kubelet can be started beside it (#13784). runc
    up to 1.1 fails for a container that has made threaded cgroups below its own (opencontainers/runc #3821).
    """
    labels = {str(sandbox.id): str(sandbox.pod) for sandbox in seen.inventory.sandboxes}
    labels |= {str(container.id): container.label for container in seen.inventory.running()}
    for id_ in sorted(unlisted & labels.keys()):
        yield Finding(
            reason=Reason.RUNTIME_NOT_READY,
            subject=labels[id_],
            detail=f"its shim cannot list its processes, so a containerd {seen.info.version} that starts would forget "
            f"that it runs (#13784); see ctr --namespace k8s.io tasks ps {id_}",
            remedy="delete the pod, or upgrade its shim, runc or containerd first",
        )


def _logs_can_be_opened(files: FilesView, logs: Mapping[str, PurePosixPath]) -> Iterator[Finding]:
    """The log of every container can be opened, or made anew. Pods that collect logs may write there.

    A starting containerd opens whatever it is: it waits without end for the reader of a FIFO, and shows a container
    whose log it cannot open, such as a program that runs, as unknown, which kubelets replace
    (internal/cri/server/restart.go).
    """
    for label, log in logs.items():
        if (obstacle := _obstacle(files, log)) is not None:
            yield Finding(
                reason=Reason.RUNTIME_RESTART_WOULD_KILL_POD,
                subject=label,
                detail=f"it logs to {one_line(str(log))}, and {obstacle}: a runtime that starts would lose it",
                remedy="find out what has put that there, and remove it, or mount a directory in place of a link; or "
                "delete the pod",
            )


def _obstacle(files: FilesView, log: PurePosixPath) -> str | None:
    try:
        return _in_the_way(files, log)
    except StepFailed as error:  # links that lead nowhere but to each other, for example
        return one_line(str(error))


def _in_the_way(files: FilesView, log: PurePosixPath) -> str | None:
    """Follow no link from above the directory of all logs on, which others can exchange as well."""
    of_kubelet = log.parent.parent.name.count("_") == _SEPARATORS
    found = files.misplaced(log, above_logs(log.parent.parent.parent) if of_kubelet else log.parent)
    return None if found is None else f"{one_line(str(found.path))} {found.what}"


def _nothing_is_paused(inventory: Inventory, paused: frozenset[str]) -> Iterator[Finding]:
    """No task is paused, as by ``ctr`` or ``nerdctl``, which the CRI does not show.

    A starting containerd shows such a container as unknown, which kubelets replace, and kills such a sandbox
    (internal/cri/server/restart.go, podsandbox/recover.go).
    """
    labels = {str(sandbox.id): str(sandbox.pod) for sandbox in inventory.sandboxes}
    labels |= {str(container.id): container.label for container in inventory.running()}
    for id_ in sorted(paused & labels.keys()):
        yield Finding(
            reason=Reason.RUNTIME_NOT_READY,
            subject=labels[id_],
            detail=f"{id_[:12]} is paused, so a restart of the runtime would lose it",
            remedy=f"run ctr --namespace k8s.io tasks resume {id_}, or delete the pod",
        )


def _version_survives_restarts(seen: RuntimeAtWork) -> Iterator[Finding]:
    version = version_numbers(seen.info.version)
    for first, last, consequence in UNRESTARTABLE:
        if first <= version <= last:
            detail = f"{seen.info.name} {seen.info.version} {consequence}; upgrade it first"
            yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _shims_answer(seen: RuntimeAtWork) -> Iterator[Finding]:
    """Every pod's shim answers in time. Listing tasks measures that, since containerd asks every shim.

    A starting containerd considers a shim dead that does not answer within 5 s, and kills its containers.
    """
    if seen.listing_seconds > SHIM_SECONDS:
        detail = (
            f"{seen.info.name} took {seen.listing_seconds:.1f} s to list its tasks, more than {SHIM_SECONDS} s: "
            "the node is too busy for a restart of the runtime, which kills containers whose shims answer too late"
        )
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)
    for container in seen.inventory.running():
        if container.process is None:
            detail = "it runs, but its process is unknown: its shim does not answer, and a restart would kill it"
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)
