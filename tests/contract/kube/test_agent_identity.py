"""Which tasks an agent may write on a real API server, with tokens such as its pod gets them."""

import uuid

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import TASKS, ForbiddenError
from tests.builders.tasks import task_object, task_spec
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

STAGING = TaskStatus(run_id=RunId("run-1"), phase=TaskPhase.STAGING)


@pytest.fixture
async def tasks(admin: KubeClient) -> tuple[str, str]:
    """Tasks of two nodes; an agent runs on the first."""
    mark = uuid.uuid4().hex[:8]
    for name in (f"mine-{mark}", f"other-{mark}"):
        await admin.create(TASKS, {**task_object(name), "spec": to_json(task_spec(name))})
    return f"mine-{mark}", f"other-{mark}"


async def test_an_agent_speaks_for_its_own_node_alone(
    admin: KubeClient, api_server: ApiServer, tasks: tuple[str, str]
) -> None:
    mine, other = tasks
    async with KubeClient.open(api_server.agent_kubeconfig(mine)) as agent:
        assert (await agent.patch_task_status(mine, STAGING)).status.phase is TaskPhase.STAGING
        with pytest.raises(ForbiddenError, match=f"own node's task only; this token is of node {mine}"):
            await agent.patch_task_status(other, STAGING)
    assert (await admin.get_task(other)).status == TaskStatus()


async def test_a_token_of_no_pod_speaks_for_no_node(api_server: ApiServer, tasks: tuple[str, str]) -> None:
    async with KubeClient.open(api_server.agent_kubeconfig(None)) as agent:
        for name in tasks:
            with pytest.raises(ForbiddenError, match="this token is of no node"):
                await agent.patch_task_status(name, STAGING)


async def test_nobody_else_is_concerned(api_server: ApiServer, tasks: tuple[str, str]) -> None:
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator:
        for name in tasks:
            assert (await operator.patch_task_status(name, STAGING)).status.phase is TaskPhase.STAGING
