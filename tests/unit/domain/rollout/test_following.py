"""What may follow at once on an action for a node, without a pass in between."""

import pytest

from nodeupgrade.domain.rollout import actions
from nodeupgrade.domain.rollout.actions import NodeAction
from nodeupgrade.domain.rollout.flight import following, leads_on


def made(*names: str) -> tuple[NodeAction, ...]:
    """Actions of which only the kind matters."""
    kinds: list[type[NodeAction]] = [getattr(actions, name) for name in names]
    return tuple(object.__new__(kind) for kind in kinds)


@pytest.mark.parametrize(
    ("done", "planned", "follow"),
    [
        ("Cordon", "StartTask", "StartTask"),
        ("StartTask", "CreateAgent", "CreateAgent"),
        ("Judge", "RestoreCordon DeleteAgent Release", "RestoreCordon DeleteAgent Release"),
        ("Judge", "LiftGuard RestoreCordon DeleteAgent Release", ""),
        ("Cordon", "RestoreCordon", ""),
        ("Cordon", "CreateAgent", ""),
        ("DeleteAgent", "CreateAgent", ""),
        ("RaiseGuard", "NarrowGuard", ""),
        ("", "Judge", "Judge"),
        ("", "RaiseGuard", "RaiseGuard"),
    ],
)
def test_only_what_an_action_has_led_to_follows_at_once(done: str, planned: str, follow: str) -> None:
    (last,) = made(done) if done else (None,)
    found = following(last, made(*planned.split()))
    assert [type(each).__name__ for each in found] == follow.split()
    assert not (found and last is not None) or leads_on(last)
