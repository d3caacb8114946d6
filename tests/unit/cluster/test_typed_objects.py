"""Events, as kubectl and dashboards show them."""

from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.kube_api import Event
from nodeupgrade.cluster.typed_objects import EVENT_MESSAGE_LIMIT, event_object

REGARDING = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "u-a"}}


def message(text: str) -> str:
    event = Event(regarding=REGARDING, reason=Reason.ADMITTED, message=text)
    return str(event_object(event, datetime(2026, 1, 1, tzinfo=UTC))["message"])


def test_what_others_wrote_is_escaped() -> None:
    assert message("the node says: \x1b[2Jall is\r\nwell\u202e") == "the node says: \\x1b[2Jall is\\r\\nwell\\u202e"


def test_a_message_is_not_longer_than_the_api_server_accepts() -> None:
    assert message(f"begin {'word ' * 300}end") == f"begin {'word ' * 101}".rstrip() + "…" + " word" * 101 + " end"
    assert len(message("\x1b" * 600)) == EVENT_MESSAGE_LIMIT
