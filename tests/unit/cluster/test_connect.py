"""How patient a connection is: as one says who waits at the terminal, otherwise as a program that has time."""

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.connect import connect


@pytest.mark.parametrize(
    ("seconds", "patience"),
    [
        (15.0, Patience(request_seconds=15.0, retry_seconds=7.5)),
        (0.0, Patience(request_seconds=0.0, retry_seconds=0.0)),
    ],
    ids=["a person", "a person who wants no second try"],
)
def test_patience_is_as_given(seconds: float, patience: Patience, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Patience | None] = []
    monkeypatch.setattr(KubeClient, "open", lambda _config, _context, given, **_user: opened.append(given))

    connect(None, None, seconds)

    assert opened == [patience]
