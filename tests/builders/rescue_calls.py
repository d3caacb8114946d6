"""Hash changes for the rescue script, and a decoder for the gRPC frames that it sends."""

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.containerd.metadata import TYPE_URL
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
