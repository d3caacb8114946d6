"""Tests the renewal of a Lease with the credentials of the kubelet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.node.lease_keeper.renewal import LOOK_SECONDS, renew, renewed_if_stale
from nodeupgrade.node.running_kubelet.requests import KubeconfigCredentials, KubeletLease
from tests.builders.lease_server import NODE, NOW, ApiServer, b64, kubeconfig, lease, pair, server

__all__ = ["pair", "server"]


@pytest.mark.parametrize(
    ("age", "duration", "renews"), [(0, 40, False), (11.9, 40, False), (12, 40, True), (3, 10, True)]
)
def test_it_leaves_a_lease_alone_that_a_kubelet_renews(age: float, duration: int, renews: bool) -> None:
    before = lease(age, duration)

    after = renewed_if_stale(before, NOW)

    assert (after is not None) is renews
    if after is not None:
        assert after["spec"]["renewTime"] == "2026-01-01T12:00:00.123456Z"
        assert after["metadata"] == before["metadata"], "the resource version guards against overwriting the kubelet"


@pytest.mark.parametrize("way", ["files", "inline", "token", "token file"])
def test_it_speaks_as_the_kubelet_does(server: ApiServer, pair: tuple[Path, Path], way: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    user = {
        "files": {"client-certificate": pair[0].name, "client-key": str(pair[1])},
        "inline": {"client-certificate-data": b64(pair[0]), "client-key-data": b64(pair[1])},
        "token": {"token": "secret"},
        "token file": {"tokenFile": str(token)},
    }[way]
    text = kubeconfig(server, pair, user, inline=way == "inline")
    api = KubeletLease(source=KubeconfigCredentials(parse(text, PurePosixPath(pair[0].parent))), node=NODE)

    assert api.read() == server.lease
    assert server.seen == [("GET", "Bearer secret" if "token" in way else None)]


def test_it_renews_again_and_again_and_ends(server: ApiServer, pair: tuple[Path, Path]) -> None:
    """An API server that is away for a while is no reason to end."""
    found = parse(kubeconfig(server, pair, {"token": "t"}), PurePosixPath(pair[0].parent))
    api = KubeletLease(source=KubeconfigCredentials(found), node=NODE)
    server.away = 2
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 4:
            server.lease = lease(0)
        if len(looks) == 6:
            server.lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    count = renew(api, 8 * LOOK_SECONDS, sleep=sleep, monotonic=lambda: sum(looks))

    assert count == 2
    assert looks == [LOOK_SECONDS] * 8
    assert [verb for verb, _ in server.seen].count("PUT") == count
    assert datetime.fromisoformat(server.lease["spec"]["renewTime"]) > datetime.now(UTC) - timedelta(seconds=30)
