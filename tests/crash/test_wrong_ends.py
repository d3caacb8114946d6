"""A runtime that remembers ends takes running containers for ended: what it wrote down is put back."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run import before_images
from tests.crash.harness import World, erring, forward, wrongs


def test_what_was_written_down_is_put_back_and_nothing_restarts() -> None:
    after = erring().run()

    assert wrongs(after, restarts_allowed=False) == []
    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK
    assert "considered 2 running containers ended" in after.report.message
    assert not any(stored.ended for stored in after.node.runtime.containers.values())


def test_without_that_every_container_is_made_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the run is held until somebody gives up on them."""
    monkeypatch.setattr(before_images, "reinstate", lambda _node, _plan: ())

    after = erring().run()

    assert after.report is not None
    assert after.report.restarted == 2


@pytest.mark.parametrize(("make", "kept"), [(erring, 2), (partial(forward, small=True), 1)])
def test_images_are_kept_of_all_containers_that_a_restart_may_harm(make: Callable[[], World], kept: int) -> None:
    """Also of those whose hash stays as it is; but of none if the runtime is not restarted at all."""
    after = make()
    first, second = after.plan.containers
    unchanged = replace(first, after=first.before)

    some = before_images.containers_to_record(after.node.ports, replace(after.plan, containers=(unchanged, second)))
    none = before_images.containers_to_record(after.node.ports, replace(after.plan, containers=(unchanged,)))

    assert (len(some), none) == (kept, ())
