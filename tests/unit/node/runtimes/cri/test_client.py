"""Tests for the CRI client and the API versions that it uses."""

from pathlib import Path

import grpc
import pytest

from nodeupgrade.errors import Unimplemented
from nodeupgrade.node.runtimes.cri.client import CriClient
from nodeupgrade.node.runtimes.cri.connection import Connection
from tests.builders.cri_server import failing, runtime_named, serving


def test_the_newest_version_of_the_cri_is_spoken(socket: Path) -> None:
    asked: list[str] = []

    def only_alpha(path: str, context: grpc.ServicerContext) -> bytes:
        asked.append(path)
        if "runtime.v1." in path:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
        return runtime_named("old")(path, context)

    with serving(socket, only_alpha), Connection(socket) as connection:
        client = CriClient(connection)
        assert client.version().runtime_name == "old"
        assert client.served() == ("v1alpha2",)
    assert asked[-1] == "/runtime.v1alpha2.RuntimeService/Version"


def test_a_runtime_without_cri_is_named_as_such(socket: Path) -> None:
    with (
        serving(socket, failing(grpc.StatusCode.UNIMPLEMENTED, "unknown service")),
        Connection(socket) as connection,
        pytest.raises(Unimplemented, match="is its CRI plugin disabled"),
    ):
        CriClient(connection).version()
