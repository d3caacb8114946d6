"""What people see of the hashes that the containers of a fleet carry."""

import pytest

from tests.golden.cli.cluster import FILES, WORLD, Cluster, check

COMMANDS = (
    "hashes --fleet",
    "hashes web-c-1 web-b-1 -o json",
    "hashes web-z-1",
    "hashes",
    "hashes web-c-1 --fleet",
)


def test_hashes_are_counted_by_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster = Cluster(*WORLD)

    check("hashes.txt", (cluster.run(f"nodeupgrade {command}") for command in COMMANDS))
