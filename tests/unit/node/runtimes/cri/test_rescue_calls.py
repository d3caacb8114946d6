"""Tests for finding hashes in CRI responses."""

from nodeupgrade.node.runtimes.cri._pb import runtime_pb2
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY
from nodeupgrade.node.runtimes.cri.rescue_calls import listed_new_hashes
from tests.builders.rescue_calls import CHANGES


def test_a_new_hash_is_found_in_an_answer_and_nothing_else_is() -> None:
    def served(key: str, value: str) -> bytes:
        container = runtime_pb2.Container(id="99ff", annotations={key: value})
        return runtime_pb2.ListContainersResponse(containers=[container]).SerializeToString()

    (wrong,) = listed_new_hashes(CHANGES)
    assert wrong in served(HASH_KEY, "99ff")
    assert wrong not in served(HASH_KEY, "1a2b3c4d")
    assert wrong not in served(HASH_KEY, "99ff0")
    assert wrong not in served("another", "99ff")
    assert b"\n" not in wrong, "grep reads one pattern from each line"
