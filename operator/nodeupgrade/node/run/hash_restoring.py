"""Restore the old kubelet's hash of one container after the other; one for which that fails keeps none of the others.

Stored metadata may have been written by another process since. Then only the hash in it is put back; if it cannot be
found there, the container is left as it is.
"""

from collections.abc import Callable, Mapping

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import FIRST_RESTORED
from nodeupgrade.node.node import Node
from nodeupgrade.node.run.container_watch import LOOK_SECONDS
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS


def restore_images(
    node: Node, images: Mapping[ContainerId, BeforeImage], after: Mapping[ContainerId, HashValue | None]
) -> frozenset[ContainerId]:
    """Restore every image, and return the containers whose hash could not be restored; try these for a moment.

    Args:
        node: the node.
        images: the before-images.
        after: the hashes of the new kubelet.

    Raises:
        StepFailed: writing failed; the other containers have been restored.
    """
    left, deadline = frozenset(images), node.clock.awake() + EXCUSE_SECONDS
    while True:
        failures: list[StepFailed] = []
        left = frozenset(i for i in left if not _restored(node, images[i], after.get(i), failures.append))
        if failures:
            raise failures[0]
        if not left or node.clock.awake() >= deadline:
            return left
        node.clock.sleep(LOOK_SECONDS)


def _restored(node: Node, image: BeforeImage, after: HashValue | None, failed: Callable[[StepFailed], None]) -> bool:
    try:
        node.runtime.restore(image)
        node.failpoint(FIRST_RESTORED)
    except ContainerGone:
        return True
    except MetadataConflict:
        return store_hash(node, image.container_id, image.hashes, instead_of=after)
    except StepFailed as error:
        failed(error)
    return True


def store_hash(node: Node, container: ContainerId, before: StoredHashes, *, instead_of: HashValue | None) -> bool:
    """Store hashes with a container that stores another one, and change nothing else. Report whether it stores them.

    A container that is gone needs none.

    Raises:
        StepFailed: writing failed.
    """
    try:
        image = node.runtime.before_images([container]).get(container)
        if image is not None and image.hashes.container == instead_of:
            node.runtime.rewrite([(image, before)])
    except ContainerGone:
        return True
    except MetadataConflict:
        return False
    return image is None or image.hashes.container in {before.container, instead_of}
