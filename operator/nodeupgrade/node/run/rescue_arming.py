"""Write the rescue script, which brings the old kubelet back if no executor can run."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.kubelet.layout import state_place
from nodeupgrade.node.node import Node
from nodeupgrade.node.own_directories import STATE_DIRECTORY
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run import before_images, kubelet_state

MODE = 0o600


def write_script(node: Node, plan: RunPlan) -> None:
    """Write the script that restores hashes and files as they are now, unless it exists with this content.

    Called twice: while the kubelet runs, so that the script is ready; and with the kubelet down, right before the first
    hash or file changes, so that it is exact.

    Raises:
        StepFailed: it cannot be written.
    """
    containers = before_images.containers_to_record(node, plan)
    images = node.runtime.before_images(c.id for c in containers)
    runtime = node.runtime.rescue_fragment([(images[c.id], c.after) for c in containers if c.id in images])
    text = script.script(plan, runtime, tuple(_files(node, plan)), STATE_DIRECTORY / "runs" / plan.run_id)
    if node.files.digest(script.SCRIPT) != sha256(text).hexdigest():
        node.files.write(script.SCRIPT, text, mode=MODE)


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
