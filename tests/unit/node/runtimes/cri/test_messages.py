"""Messages with texts that are not UTF-8, as whoever creates a pod in protobuf may cause them."""

import pytest
from google.protobuf.message import DecodeError

from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.connection import Connection, UnaryMethod
from nodeupgrade.node.runtimes.cri.messages import read
from nodeupgrade.node.shield.call_requests import parse_request
from nodeupgrade.node.shield.harmful_calls import Method
from tests.builders.cri_server import serving
from tests.builders.hostile_text import SEPARATORS

RAW = b"a\xff\xfe\xe2\x82z\xed\xa0\x80"
AS_JSON = "a\ufffd\ufffd\ufffd\ufffdz\ufffd\ufffd\ufffd"
"""As Go's encoding/json has it: one for each byte."""
PLACE = "a" + "x" * (len(RAW) - 2) + "z"


def listing(text: str = PLACE) -> pb.ListPodSandboxResponse:
    sandbox = pb.PodSandbox(id="1234", annotations={"key": text, "other": "sound"}, labels={"l": "v"})
    sandbox.metadata.name = "web"
    sandbox.created_at = 7
    return pb.ListPodSandboxResponse(items=[sandbox, pb.PodSandbox(id="5678")])


def raw(message: bytes) -> bytes:
    assert PLACE.encode() in message
    return message.replace(PLACE.encode(), RAW)


def test_what_is_no_text_is_read_as_the_api_server_shows_it() -> None:
    found = read(pb.ListPodSandboxResponse, raw(listing().SerializeToString()))

    assert found == listing(AS_JSON)


def test_commands_and_fields_of_inner_messages_are_read_likewise() -> None:
    request = pb.ExecSyncRequest(container_id="1", cmd=["true", PLACE])
    status = pb.ContainerStatusResponse()
    status.status.id, status.status.exit_code = "1", 137
    status.info["info"] = PLACE

    assert parse_request(Method.EXEC_SYNC, raw(request.SerializeToString())).command == ("true", AS_JSON)
    found = read(pb.ContainerStatusResponse, raw(status.SerializeToString()))
    assert (found.status, dict(found.info)) == (status.status, {"info": AS_JSON})


def test_what_is_no_message_stays_an_error() -> None:
    with pytest.raises(DecodeError):
        read(pb.ListPodSandboxResponse, b"\xff")


@pytest.mark.parametrize("text", [*SEPARATORS, "\0", "\ufffd", "\U0010ffff", "x" * 100_000])
def test_every_text_stays_as_it_is(text: str) -> None:
    beside = listing(text)
    beside.items[1].annotations["raw"] = PLACE

    assert read(pb.ListPodSandboxResponse, raw(beside.SerializeToString())).items[0] == listing(text).items[0]


def test_a_runtime_with_such_a_pod_can_be_listed(socket: object) -> None:
    method = UnaryMethod("/runtime.v1.RuntimeService/ListPodSandbox", pb.ListPodSandboxResponse)
    with serving(socket, lambda _path, _context: raw(listing().SerializeToString())), Connection(socket) as connection:  # type: ignore[arg-type]
        assert connection.ask(method, pb.ListPodSandboxRequest()) == listing(AS_JSON)
