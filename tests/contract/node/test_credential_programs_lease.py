"""A node's Lease is kept with credentials that a program prints: really run, printed anew, refused, failing."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.lease_keeper.renewal import renew
from nodeupgrade.node.lease_keeper.wiring import lease_of
from tests.builders.lease_server import NODE, ApiServer, kubeconfig, lease, pair, server
from tests.contract.node.test_credential_programs import API, place

__all__ = ["pair", "place", "server"]

pytestmark = pytest.mark.real

EVERY = f"""#!/bin/sh
cat << END
{{"apiVersion": "{API}", "kind": "ExecCredential", "status": {{
  "token": "$WHO-$(date +%s%N)", "expirationTimestamp": "$(date -u -d "+$LIFE seconds" +%FT%TZ)"}}}}
END
"""
"""Prints another token each time, which is good for so many seconds."""


BETWEEN_LOOKS = 40.0
"""Seconds that pass for the keeper, as long as a Lease lasts."""


def kept(place: Path, server: ApiServer, pair: tuple[Path, Path], life: int, at: Callable[[int], None]) -> int:
    """Let the keeper look nine times: after the first one, each finds a Lease that nobody has renewed for too long."""
    (place / "print").write_text(EVERY)
    (place / "print").chmod(0o700)
    user: dict[str, object] = {
        "exec": {"apiVersion": API, "command": "./print", "env": [{"name": "WHO", "value": "k"}]}
    }
    (place / "kubeconfig").write_bytes(kubeconfig(server, pair, user, inline=True))
    (place / "environment").write_text(json.dumps({"PATH": "/usr/bin:/bin", "LIFE": str(life)}))
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        server.lease = lease(0)
        at(len(looks))

    api = lease_of(NODE, PurePosixPath(place / "kubeconfig"), place / "environment")
    return renew(api, 9 * BETWEEN_LOOKS, sleep=sleep, monotonic=lambda: len(looks) * BETWEEN_LOOKS)


def test_a_lease_is_kept_with_what_a_program_prints(place: Path, server: ApiServer, pair: tuple[Path, Path]) -> None:
    assert kept(place, server, pair, 1000, lambda _: None) == 8

    tokens = {token for _, token in server.seen}
    assert len(tokens) == 1, "it is run once for as long as its credentials are good"
    assert str(tokens.pop()).startswith("Bearer k-")


def test_credentials_that_expire_meanwhile_are_printed_again(
    place: Path, server: ApiServer, pair: tuple[Path, Path]
) -> None:
    began = datetime.now(UTC)

    assert kept(place, server, pair, 2, lambda look: time.sleep(2.5) if look == 4 else None) == 8

    tokens = [token for _, token in server.seen]
    assert len(set(tokens)) >= 2
    assert tokens[0] != tokens[-1]
    assert (datetime.now(UTC) - began).total_seconds() > 2


def test_after_a_refusal_they_are_printed_again_at_once(
    place: Path, server: ApiServer, pair: tuple[Path, Path]
) -> None:
    def revoke(look: int) -> None:
        if look == 3:
            server.unknown = {token for _, token in server.seen}

    assert kept(place, server, pair, 1000, revoke) == 8
    assert len({token for _, token in server.seen}) == 2


def test_a_program_that_fails_for_a_while_is_tried_again(
    place: Path, server: ApiServer, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeupgrade.node.running_kubelet.credential_programs.FAILURE_SECONDS", 0.0)

    def fail(look: int) -> None:
        (place / "print").chmod(0o600 if look in {2, 3} else 0o700)
        server.unknown = {token for _, token in server.seen} if look == 2 else server.unknown

    assert kept(place, server, pair, 1000, fail) == 6
