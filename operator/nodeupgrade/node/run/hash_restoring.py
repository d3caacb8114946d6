"""Restore the old kubelet's hashes, whatever became of the metadata of one of the containers.

Another process may have written it since. Then only the hash in it is put back; if that cannot be found there, the
container is left as it is, and the others are restored.
"""

from collections.abc import Mapping

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
) -> tuple[ContainerId, ...]:
    """Restore every image, and return the containers whose hash could not be restored; try these for a moment.

    Args:
        node: the node.
        images: the before-images.
        after: the hashes of the new kubelet.

    Raises:
        StepFailed: writing failed, which is no matter of one container.
    """
    left, deadline = tuple(images), node.clock.awake() + EXCUSE_SECONDS
    while left := tuple(i for i in left if not _restored(node, images[i], after.get(i))):
        if node.clock.awake() >= deadline:
            break
        node.clock.sleep(LOOK_SECONDS)
    return left


def _restored(node: Node, image: BeforeImage, after: HashValue | None) -> bool:
    try:
        node.runtime.restore(image)
    except ContainerGone:
        return True
    except MetadataConflict:
        return store_hash(node, image.container_id, image.hashes, instead_of=after)
    finally:
        node.failpoint(FIRST_RESTORED)
    return True


def store_hash(node: Node, container: ContainerId, before: StoredHashes, *, instead_of: HashValue | None) -> bool:
    """Store hashes with a container that stores another one, and change nothing else. Report whether it stores them.

    A container that is gone needs none.

    Raises:
        StepFailed: writing failed.
    """
    try:
        image = node.runtime.before_images([container]).get(container)
    except StepFailed:  # it cannot be read, or has no known form
        return False
    try:
        if image is not None and image.hashes.container == instead_of:
            node.runtime.rewrite([(image, before)])
    except ContainerGone:
        return True
    except MetadataConflict:
        return False
    return image is None or image.hashes.container in {before.container, instead_of}
