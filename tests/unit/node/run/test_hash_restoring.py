"""What cannot be restored of one container keeps none of the others; a disk that takes nothing keeps all."""

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.run.hash_restoring import restore_images, store_hash
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.doubles.node import Moment, SimulatedNode, pod_json

NEW = HashValue("b1")


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(version="v1.30.14", pods=[pod_json("web", "one", "two", "three")])


def test_where_nothing_can_be_written_no_container_is_given_up(node: SimulatedNode) -> None:
    images = node.runtime.before_images(node.runtime.containers)
    node.runtime.rewrite((image, StoredHashes(container=NEW)) for image in images.values())

    def fail(name: str, _number: int, _moment: Moment) -> None:
        if name == "runtime.restore":
            raise StepFailed("there is no space")

    node.calls.interrupt = fail

    with pytest.raises(StepFailed, match="no space"):
        restore_images(node.ports, images, dict.fromkeys(images, NEW))


def test_what_has_no_known_form_is_returned_and_the_others_are_restored(node: SimulatedNode) -> None:
    before = {i: stored.hashes for i, stored in node.runtime.containers.items()}
    images = node.runtime.before_images(before)
    node.runtime.rewrite((image, StoredHashes(container=NEW)) for image in images.values())
    first, *others = before
    node.runtime.troubles.garbled.add(first)

    assert restore_images(node.ports, images, dict.fromkeys(images, NEW)) == (first,)

    assert [node.runtime.containers[each].hashes for each in others] == [before[each] for each in others]


def test_a_container_that_is_gone_needs_no_hash(node: SimulatedNode) -> None:
    images = node.runtime.before_images(node.runtime.containers)
    gone, *_ = images
    del node.runtime.containers[gone]

    assert restore_images(node.ports, images, {}) == ()
    assert store_hash(node.ports, gone, StoredHashes(container=NEW), instead_of=None)


def test_only_the_hash_that_is_expected_is_replaced(node: SimulatedNode) -> None:
    container, stored = next(iter(node.runtime.containers.items()))
    found, old = stored.hashes.container, StoredHashes(container=HashValue("aaaa0000"))

    assert not store_hash(node.ports, container, old, instead_of=NEW)
    assert stored.hashes.container == found
    assert store_hash(node.ports, container, old, instead_of=found)
    assert stored.hashes == old
    assert store_hash(node.ports, container, old, instead_of=found), "repeated after an interruption"
