"""What the rescue script sends is what the adapter itself would send, and what it looks for is what containerd says."""

from pathlib import Path

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2
from nodeupgrade.node.runtimes.containerd.metadata import EXTENSION, TYPE_URL
from nodeupgrade.node.runtimes.containerd.rescue_fragment import updates
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2
from nodeupgrade.node.runtimes.cri.client import CriClient, CriVersion
from nodeupgrade.node.runtimes.cri.connection import Connection
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY
from nodeupgrade.node.runtimes.cri.rescue_calls import wrong_hashes
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage

OLD, NEW = StoredHashes(container=HashValue("1a2b3c4d")), StoredHashes(container=HashValue("99ff"))


def image(name: str) -> BeforeImage:
    return BeforeImage(container_id=ContainerId(name), encoding=TYPE_URL, data=b'{"a":1}', hashes=OLD)


CHANGES = [(image("one"), NEW), (image("two"), OLD)]


def message(frame: bytes) -> bytes:
    assert frame[:1] == b"\0", "not compressed"
    assert int.from_bytes(frame[1:5], "big") == len(frame) - 5
    return frame[5:]


def test_each_image_is_put_back_by_an_update_of_one_extension() -> None:
    calls = updates(image for image, _ in CHANGES)
    assert [call.path for call in calls] == ["/containerd.services.containers.v1.Containers/Update"] * 2
    for name, call in zip(("one", "two"), calls, strict=True):
        request = containerd_pb2.UpdateContainerRequest.FromString(message(call.frame))
        assert request.container.id == name
        assert list(request.update_mask.paths) == [f"extensions.{EXTENSION}"]
        stored = request.container.extensions[EXTENSION]
        assert (stored.type_url, stored.value) == (TYPE_URL, b'{"a":1}')


def test_running_containers_are_listed_in_the_version_that_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CriClient, "served", lambda _self: (CriVersion.V1ALPHA2,))
    listing = CriClient(Connection(Path("/run/some.sock"))).listing_of_running()
    request = runtime_pb2.ListContainersRequest.FromString(message(listing.frame))

    assert listing.path == "/runtime.v1alpha2.RuntimeService/ListContainers"
    assert request.filter.state.state == runtime_pb2.CONTAINER_RUNNING


def test_a_new_hash_is_found_in_an_answer_and_nothing_else_is() -> None:
    def served(key: str, value: str) -> bytes:
        container = runtime_pb2.Container(id="99ff", annotations={key: value})
        return runtime_pb2.ListContainersResponse(containers=[container]).SerializeToString()

    (wrong,) = wrong_hashes(CHANGES)
    assert wrong in served(HASH_KEY, "99ff")
    assert wrong not in served(HASH_KEY, "1a2b3c4d")
    assert wrong not in served(HASH_KEY, "99ff0")
    assert wrong not in served("another", "99ff")
    assert b"\n" not in wrong, "grep reads one pattern from each line"
