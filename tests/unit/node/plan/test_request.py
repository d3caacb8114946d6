"""Tests what a run takes from its task."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.plan.request import Replacement, RunRequest
from tests.scenario.agent.given import upgrade_task


def test_a_runs_limits_are_those_of_its_task() -> None:
    wanted = VerifySettings(
        settle=timedelta(seconds=1),
        kubelet_down_budget=timedelta(seconds=2),
        node_ready_timeout=timedelta(seconds=3),
        shield_hold=timedelta(seconds=4),
    )
    spec = upgrade_task(NodeName("node-a"), RunId("run-1"), "v1.30.14", "v1.33.13", source="/opt/kubelet").spec
    program = Replacement(program=PurePosixPath("/opt/kubelet"), digest=None)

    limits = RunRequest(
        spec=replace(spec, verify=wanted),
        run_id=RunId("run-1"),
        namespace="nodeupgrade-system",
        replacement=program,
        staged="",
        backup="",
    ).limits

    assert limits == Limits(settle=1.0, kubelet_down=2.0, node_status=3.0, shield_hold=4.0)
