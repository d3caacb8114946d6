"""The operator's process, with a configuration: it queries, waits, goes on, and tells."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_operator_process import Rollout, serving_operator

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


class Outside:
    """A Prometheus with one value, and a receiver of notices."""

    def __init__(self) -> None:
        self.value, self.told, self.url = "5", list[str](), ""

    async def query(self, request: web.Request) -> web.Response:
        assert (await request.post())["query"] == "errors"
        sample = {"metric": {}, "value": [time.time(), self.value]}
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": [sample]}})

    async def take(self, request: web.Request) -> web.Response:
        notice: Json = await request.json()
        self.told.append(notice["phase"])
        return web.Response()


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    made, application = Outside(), web.Application()
    application.router.add_post("/api/v1/query", made.query)
    application.router.add_post("/hook", made.take)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


async def test_a_rollout_waits_for_health_and_goes_on_and_tells(
    admin: KubeClient, api_server: ApiServer, outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "prometheus": [{"name": "default", "url": outside.url}],
        "notifications": [{"name": "ops", "url": f"{outside.url}/hook"}],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("CONFIG_FILE", str(tmp_path / "config.yaml"))
    errors = {"name": "errors", "prometheus": {"query": "errors", "expression": "value < 1"}}
    rollout = Rollout(admin, api_server, "healthy")

    async def is_found_failing() -> bool:
        status = (await rollout.upgrade()).status
        return status.phase == "Stalled" and any(each.reason == "HealthCheckFailed" for each in status.conditions)

    async def is_told_of_its_end() -> bool:
        return "Succeeded" in outside.told

    async with serving_operator(api_server.kubeconfig("operator")) as operator:
        await rollout.begins("healthy-0", healthChecks=[{**errors, "interval": "20s", "timeout": "20s", "for": "0s"}])
        await rollout.goes_on_until(is_found_failing)
        status = (await rollout.upgrade()).status
        (healthy,) = [each for each in status.conditions if each.type == "Healthy"]
        assert (healthy.status, healthy.reason) == ("False", "HealthCheckFailed")
        assert "value < 1 is false for 1 of 1 sample: 5" in healthy.message
        assert (status.in_flight, status.started_at) == ((), None)
        assert (await admin.get(TASKS, "healthy-0"))["spec"]["action"] != "Run"

        outside.value = "0"
        await rollout.goes_on_until(rollout.succeeds)
        await rollout.goes_on_until(is_told_of_its_end)
        await asyncio.wait_for(recorded(admin), 60)
        await operator.stops()
    assert "Stalled" in outside.told


async def recorded(admin: KubeClient) -> None:
    """Wait until the operator has noted who was told."""
    while not any("notified." in name for name in (await _annotations(admin))):  # noqa: ASYNC110 - it is elsewhere
        await asyncio.sleep(0.2)


async def _annotations(admin: KubeClient) -> dict[str, str]:
    body = await admin.get(UPGRADES, "healthy")
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found
