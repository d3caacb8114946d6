"""Tests the renewal of a Lease with the credentials of the kubelet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.node.lease_keeper.renewal import LOOK_SECONDS, Staleness, renew, renewed
from nodeupgrade.node.running_kubelet.requests import KubeconfigCredentials, KubeletLease
from tests.builders.lease_server import NODE, NOW, ApiServer, b64, kubeconfig, lease, pair, server

__all__ = ["pair", "server"]


@pytest.mark.parametrize(("duration", "stale_after"), [(40, 12), (10, 3)])
def test_it_leaves_a_lease_alone_that_a_kubelet_renews(duration: int, stale_after: int) -> None:
    seen = Staleness()

    assert not seen.is_stale(lease(0, duration), 100)
    assert not seen.is_stale(lease(0, duration), 100 + stale_after - 0.1)
    assert seen.is_stale(lease(0, duration), 100 + stale_after)
    assert not seen.is_stale(lease(-5, duration), 100 + stale_after), "a kubelet has just renewed it"


@pytest.mark.parametrize("clock", [-3600, 0, 3600])
def test_no_clock_that_is_set_keeps_it_from_renewing(clock: int) -> None:
    """The control plane takes notice of a renewTime only if it is later than the last."""
    now, before = NOW + timedelta(seconds=clock), lease(0)

    after = renewed(before, now)

    assert datetime.fromisoformat(after["spec"]["renewTime"]) == max(now, NOW + timedelta(microseconds=1))
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
    server.lease = lease(-(10**8))  # by a clock that was years ahead, and is set back by now
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 10:
            server.lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    count = renew(api, 17 * LOOK_SECONDS, sleep=sleep, monotonic=lambda: sum(looks))

    assert count == 2, "6 looks after it was seen first, and after a kubelet had renewed it"
    assert looks == [LOOK_SECONDS] * 17
    assert [verb for verb, _ in server.seen].count("PUT") == count
    assert datetime.fromisoformat(server.lease["spec"]["renewTime"]) > datetime.now(UTC) - timedelta(seconds=30)
