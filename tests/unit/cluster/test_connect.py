"""How patient a connection is: as one says who waits at the terminal, otherwise as a program that has time.

And how much an agent reads.
"""

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.connect import LARGEST_ANSWER, connect, connect_pod


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


def test_an_agent_reads_no_answer_that_its_memory_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[dict[str, int]]()
    monkeypatch.setattr(KubeClient, "open", lambda **given: opened.append(given))

    connect_pod()

    assert opened == [{"largest": LARGEST_ANSWER}]
