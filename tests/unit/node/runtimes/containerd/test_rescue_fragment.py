"""Tests for the containerd part of the rescue script."""

from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2
from nodeupgrade.node.runtimes.containerd.metadata import EXTENSION, TYPE_URL
from nodeupgrade.node.runtimes.containerd.rescue_fragment import restore_calls
from tests.builders.rescue_calls import CHANGES, message


def test_each_image_is_put_back_by_an_update_of_one_extension() -> None:
    calls = restore_calls(image for image, _ in CHANGES)
    assert [call.path for call in calls] == ["/containerd.services.containers.v1.Containers/Update"] * 2
    for name, call in zip(("one", "two"), calls, strict=True):
        request = containerd_pb2.UpdateContainerRequest.FromString(message(call.frame))
        assert request.container.id == name
        assert list(request.update_mask.paths) == [f"extensions.{EXTENSION}"]
        stored = request.container.extensions[EXTENSION]
        assert (stored.type_url, stored.value) == (TYPE_URL, b'{"a":1}')
