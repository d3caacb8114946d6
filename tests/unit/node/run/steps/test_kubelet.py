"""Tests the steps that stop, replace, and start the kubelet."""

from types import SimpleNamespace
from typing import cast

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.steps.kubelet import require_same_process
from tests.builders.starting_kubelet import ENDED, UNIT, WROTE, Starting, node_of


def test_the_last_errors_of_a_kubelet_that_exits_while_it_settles_are_told() -> None:
    plan = cast("RunPlan", SimpleNamespace(swap=SimpleNamespace(unit=UNIT)))

    with pytest.raises(StepFailed, match="exited while it was watched") as failed:
        require_same_process(node_of(Starting(dies=(), wrote=(ENDED,))), plan, 99)

    assert str(failed.value).endswith(f"{WROTE}unable to load bootstrap kubeconfig")
