"""Would the runtime come back as it runs now? What speaks against it, from what its next start would read.

A restart is the moment at which everything counts that was changed since the last one: a configuration that it cannot
read leaves the node without a runtime, another root directory leaves it with an empty one beside all that still runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.host import RuntimePlaces, RuntimeProcess, UnitStatus
from nodeupgrade.domain.node.runtime import NextStart

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAsFound:
    """The runtime that runs, and the one that its unit would start.

    Attributes:
        name: of this kind of runtime.
        process: what answers on the socket; ``None`` if it cannot be told.
        owner: the unit that this process belongs to, as far as its control group tells.
        places: where the running one keeps everything; ``None`` if it does not say.
        next: how it would come back.
        changed: files and directories that a start reads and that were changed after the last one.
        program: digest of the program on disk.
    """

    name: str
    unit: UnitStatus
    process: RuntimeProcess | None
    owner: str
    places: RuntimePlaces | None
    next: NextStart
    changed: tuple[str, ...]
    program: Digest | None


Check: TypeAlias = Callable[[RuntimeAsFound], Iterator[Finding]]


def drift(found: RuntimeAsFound) -> Iterator[Finding]:
    """Whether what answers is what would be restarted, and whether it would come back as it is.

    Where a restart would do harm nothing else is said: it is the remedy for everything else.
    """
    if not found.unit.running:  # another check says so
        return
    for checks in (HARMFUL, OUT_OF_DATE):
        wrong = [finding for check in checks for finding in check(found)]
        yield from wrong
        if wrong:
            return


def the_unit_s_own_process_answers(found: RuntimeAsFound) -> Iterator[Finding]:
    """The process on the other side of the kubelet's socket is the one that a restart of the unit replaces."""
    process, unit = found.process, found.unit
    if process is None:
        detail = (
            f"nobody can tell which process answers on the runtime's socket, so that {unit.name} may be another one"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    elif process.pid != unit.main_pid:
        owner = f" of {found.owner}" if found.owner else ""
        detail = (
            f"the runtime's socket is answered by process {process.pid}{owner}, but {unit.name}, whose main process "
            f"is {unit.main_pid}, is what would be restarted; only a {found.name} that runs as {unit.name} is supported"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def it_is_started_as_it_was(found: RuntimeAsFound) -> Iterator[Finding]:
    """The unit's command line is that of the running process, apart from what an earlier run of ours set for a time."""
    running = () if found.process is None else found.process.words
    if found.unit.command and not found.next.as_it_runs:
        detail = (
            f"it runs as `{' '.join(running)}`, and {found.unit.name} would start `{' '.join(found.unit.command)}`; "
            f"{_restart_first(found)}"
        )
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def its_configuration_can_be_read(found: RuntimeAsFound) -> Iterator[Finding]:
    """The program on disk reads its configuration without complaint."""
    if found.next.places is None:
        detail = (
            f"{found.unit.name} would not come back from a restart, or nobody knows how: {found.next.complaint}; "
            "correct that first"
        )
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def everything_stays_in_its_place(found: RuntimeAsFound) -> Iterator[Finding]:
    """It would look for containers where they are, and listen where the kubelet expects it."""
    if found.next.places is None:
        return
    if found.places is None:
        detail = f"{found.unit.name} does not say where it keeps its containers, so nobody knows if they stay"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)
        return
    for name in ("root", "state", "address"):
        now, then = getattr(found.places, name), getattr(found.next.places, name)
        if now != then and (then or name != "address"):
            detail = (
                f"{found.unit.name} runs with {name} {now} and would start with {then or 'none'}: it would know of no "
                "container that runs, or nobody would find it; put the setting back, and do not restart it before"
            )
            yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def nothing_was_changed_since(found: RuntimeAsFound) -> Iterator[Finding]:
    """Every file that a start reads is older than the process."""
    if found.changed:
        others = f" and {len(found.changed) - _NAMED} more" if len(found.changed) > _NAMED else ""
        named = ", ".join(found.changed[:_NAMED])
        detail = f"{named}{others}: changed after {found.unit.name} was started; {_restart_first(found)}"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def its_program_is_the_same(found: RuntimeAsFound) -> Iterator[Finding]:
    """What would be started is what runs, byte for byte; two builds may call themselves the same version."""
    running = None if found.process is None else found.process.program
    if running is None or running != found.program:
        detail = f"{found.unit.program or 'its program'} is not the program that runs; {_restart_first(found)}"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def _restart_first(found: RuntimeAsFound) -> str:
    return f"restart {found.unit.name} at a time of your choice first"


HARMFUL: tuple[Check, ...] = (
    the_unit_s_own_process_answers,
    its_configuration_can_be_read,
    everything_stays_in_its_place,
)
OUT_OF_DATE: tuple[Check, ...] = (it_is_started_as_it_was, nothing_was_changed_since, its_program_is_the_same)
