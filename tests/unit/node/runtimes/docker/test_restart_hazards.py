"""Tests for the conditions that prevent a restart of dockerd."""

from typing import Any

import pytest

from nodeupgrade.node.runtimes.docker.restart_hazards import objections


@pytest.mark.parametrize(
    ("info", "version", "objects"),
    [
        ({"LiveRestoreEnabled": True, "Swarm": {"LocalNodeState": "inactive"}}, (20, 10, 24), []),
        ({"LiveRestoreEnabled": True}, (18, 9), []),
        ({"LiveRestoreEnabled": False}, (20, 10), ["live-restore"]),
        ({}, (20, 10), ["live-restore"]),
        ({"LiveRestoreEnabled": "true"}, (20, 10), ["live-restore"]),
        ({"LiveRestoreEnabled": True, "Swarm": {"LocalNodeState": "active"}}, (20, 10), ["swarm"]),
        ({"LiveRestoreEnabled": True}, (18, 6, 3), ["older than 18.09"]),
        ({"LiveRestoreEnabled": True}, (), ["older than 18.09"]),
    ],
)
def test_what_speaks_against_a_restart(info: dict[str, Any], version: tuple[int, ...], objects: list[str]) -> None:
    found = list(objections(info, version))
    assert len(found) == len(objects)
    assert all(word in text for word, text in zip(objects, found, strict=True))
