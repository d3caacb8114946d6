"""What keeps a node alive if its run is lost: the rescue script, and the keeper of its Lease."""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node import rescue_script
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import restart_effects
from nodeupgrade.engine.node.facts.own_places import STATE_DIRECTORY
from nodeupgrade.engine.node.node import LEASE_KEEPER, Node

MODE = 0o600


def lay_down(node: Node, plan: RunPlan) -> None:
    """Write the script that restores hashes and files as they are now, unless it exists with this content.

    Called twice: while the kubelet runs, so that the script is ready; and with the kubelet down, right before the first
    hash or file changes, so that it is exact. The second call writes only if something changed in between.

    Raises:
        StepFailed: it cannot be written.
    """
    kept = restart_effects.images_to_keep(node, plan)
    images = node.runtime.before_images(c.id for c in kept)
    changes = [(images[c.id], c.after) for c in kept if c.id in images]
    files = tuple(_files(node, plan))
    runtime = node.runtime.rescue_fragment(changes)
    text = rescue_script.script(plan, runtime, files, STATE_DIRECTORY / "runs" / plan.run_id)
    if node.files.digest(rescue_script.SCRIPT) != sha256(text).hexdigest():
        node.files.write(rescue_script.SCRIPT, text, mode=MODE)


def _files(node: Node, plan: RunPlan) -> Iterator[rescue_script.FileBefore]:
    for pin in plan.pins:
        content = node.files.read(PurePosixPath(pin.path))
        if content is not None and content != pin.content:
            yield rescue_script.FileBefore(path=pin.path, content=content, only_if=pin.content)
    for path in plan.state_files:
        if (state := node.files.read(PurePosixPath(path))) is not None:
            yield rescue_script.FileBefore(path=path, content=state)
    if (arguments := plan.swap.arguments) is not None:
        before = node.files.read(PurePosixPath(arguments.path))
        yield rescue_script.FileBefore(path=arguments.path, content=before)


# The lease keeper renews the node's Lease while no kubelet does.


def keep_lease(node: Node, plan: RunPlan) -> None:
    """Start the lease keeper, unless it runs. It ends by itself, so it never outlives the executor for long."""
    if _renews(plan):
        with suppress(StepFailed):  # the run does not depend on it
            node.services.start(LEASE_KEEPER, wait=False)


def release_lease(node: Node, plan: RunPlan) -> None:
    """Stop the lease keeper."""
    if _renews(plan):
        with suppress(StepFailed):  # it has ended by itself, or systemd ends it
            node.services.stop(LEASE_KEEPER)


def _renews(plan: RunPlan) -> bool:
    return plan.limits.keep_lease and plan.kubeconfig is not None
