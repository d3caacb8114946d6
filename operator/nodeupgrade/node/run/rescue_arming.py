"""Write the rescue script, which brings the old kubelet back if no executor can run."""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import state_place
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import reloads_without_kubelet
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run import kubelet_state

MODE = 0o600


def write_script(node: Node, plan: RunPlan) -> None:
    """Write the script that restores files as they are now, unless it exists with this content, and what it needs.

    Called twice: while the kubelet runs, so that the script is ready; and with the kubelet down, right before the first
    file changes, so that it is exact.

    Raises:
        StepFailed: it cannot be written.
    """
    if reloads_without_kubelet(plan):
        _keep_space(node)
    text = script.script(plan, tuple(_files(node, plan)))
    if node.files.read(script.LOOK) is None:
        node.files.write(script.LOOK, script.EMPTY_LOOK, mode=MODE)
    if node.files.digest(script.SCRIPT) != sha256(text).hexdigest():
        node.files.write(script.SCRIPT, text, mode=MODE)


def _keep_space(node: Node) -> None:
    """Keep space for systemd where there is enough for it on the way forward as well; a run goes on without."""
    with suppress(StepFailed):
        least = script.RESERVE_BYTES + script.RELOAD_BYTES
        if node.files.size(script.RESERVE) is None and node.files.usage(script.RESERVE.parent).free >= least:
            node.files.write(script.RESERVE, bytes(script.RESERVE_BYTES), mode=MODE)


def _files(node: Node, plan: RunPlan) -> Iterator[script.FileBefore]:
    for pin in plan.pins:
        content = node.files.read(PurePosixPath(pin.path))
        if content is not None and content != pin.content:
            yield script.FileBefore(path=pin.path, content=content, only_if=pin.content)
    for path, content in kubelet_state.to_break(node, plan):
        yield script.FileBefore(path=path, content=content, place=str(state_place(path).parent))
    if (arguments := plan.swap.arguments) is not None:
        before = node.files.read(PurePosixPath(arguments.path))
        yield script.FileBefore(path=arguments.path, content=before)
