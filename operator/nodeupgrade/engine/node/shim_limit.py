"""Finds out whether shims can be given more time in the restart of a run, gives it to them, and takes it back."""

from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.shim_limit import (
    CONFIG,
    STANDARD_INPUT,
    USUAL,
    ShimLimit,
    Start,
    candidates,
    drop_in_path,
    limit_in,
    only_raises,
    raised,
    read_start,
    unchanged,
)
from nodeupgrade.engine.node.node import Node, NodeView
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import Configuration
from nodeupgrade.ports.services import ServiceManager

MODE = 0o644


def find(node: NodeView, unit: UnitStatus) -> ShimLimit:
    """Try how the limit can be raised and nothing else changed; the runtime's program says what it makes of it.

    Whatever speaks against it, the run goes on without.
    """
    if (start := read_start(unit.command)) is None:
        return unchanged(f"{unit.name} starts it in a way that is not known ({' '.join(unit.command) or 'no command'})")
    try:
        own = node.files.read(PurePosixPath(start.config))
        # Where there is none, an empty one stands for it: the program fails to dump what it would do without.
        before = node.runtime.configuration(start.words(None if own is not None or start.named else STANDARD_INPUT))
        if before is None:
            return unchanged(f"{start.program} does not show its configuration")
        if (now := limit_in(before)) != USUAL:
            return unchanged(f"its configuration sets {now}")
        for config in candidates(start, own):
            after = _tried(node, start, config)
            if after is not None and only_raises(before, after):
                return raised(start, config)
    except (StepFailed, ValueError) as error:
        return unchanged(str(error))
    return unchanged(f"{start.config} cannot be imported without changing anything else")


def _tried(node: NodeView, start: Start, config: bytes) -> Configuration | None:
    try:
        return node.runtime.configuration(start.words(STANDARD_INPUT), config)
    except StepFailed:
        return None


def give(node: Node, plan: RunPlan) -> None:
    """Have systemd start the runtime with the raised limit from now on; without, if that fails."""
    if not plan.shims.raised:
        return
    try:
        node.files.write(CONFIG, plan.shims.config, mode=MODE)
        node.files.write(drop_in_path(plan.runtime_unit), plan.shims.drop_in, mode=MODE)
        node.services.reload()
    except StepFailed:  # a file that systemd has not read would look like somebody's change of the unit
        with suppress(StepFailed):
            node.files.remove(drop_in_path(plan.runtime_unit))


def take_back(files: Files, services: ServiceManager, unit: str) -> None:
    """Have systemd start the runtime as before; the configuration goes last, since until then it may be needed.

    Raises:
        StepFailed: something of it is still there.
    """
    files.remove(drop_in_path(unit))
    services.reload()
    files.remove(CONFIG)
