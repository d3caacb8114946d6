"""A container that never started, because a slow node's kubelet gave up on it and made the next one."""

from dataclasses import replace

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.runtimes.inventory import ContainerState
from tests.doubles.node import plan_for
from tests.doubles.node.containers.records import Stored
from tests.scenario.node_run.test_node_run import LIMITS, Story, story

LEFT = ContainerId("left")


def with_one_left(it: Story) -> Story:
    """Leave the first attempt at a container behind, which runs as the second."""
    records = it.node.runtime.containers
    second = records[it.container("nginx")]
    first = replace(
        second.instance,
        id=LEFT,
        state=ContainerState.CREATED,
        created_at=second.instance.created_at - 1,
        process=None,
        monitor=None,
    )
    second.instance = replace(second.instance, attempt=first.attempt + 1)
    later = dict(records)
    records.clear()
    records[LEFT] = Stored(first, second.hashes)
    records.update(later)
    return Story(it.node, plan_for(it.node, "v1.33.13", limits=LIMITS))


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
def test_it_does_not_keep_the_node_from_its_upgrade(shield: bool) -> None:
    it = with_one_left(story())
    it = it if shield else Story(it.node, replace(it.plan, shield=None))

    report = it.tell()

    assert (report.outcome, report.restarted, report.rewritten) == (Outcome.UPGRADED, 0, 4), report
    assert LEFT not in {each.id for each in it.plan.containers}
    assert it.nothing_restarted()
