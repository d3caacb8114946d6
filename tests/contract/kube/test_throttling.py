"""What a real API server answers with 429, and what becomes of other requests then."""

import asyncio
import base64
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.refusals import is_about_all_requests
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import CONFIGMAPS, NODES, UnavailableError
from tests.builders.certificates import self_signed
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

LATER = 999
"""Seconds for which the webhook asks."""

IMPATIENT = Patience(request_seconds=60.0, retry_seconds=1.0)
MAPS = CONFIGMAPS.within("default")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LABEL = "throttled"
CLASSIFIED = "x-kubernetes-pf-prioritylevel-uid"
"""A header by which priority and fairness says how it has classified a request."""


async def review(request: web.Request) -> web.Response:
    """Deny, as a webhook that has too much to do itself."""
    asked = (await request.json())["request"]
    status = {"code": 429, "reason": "TooManyRequests", "message": "later", "details": {"retryAfterSeconds": LATER}}
    answer = {"uid": asked["uid"], "allowed": False, "status": status}
    return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})


@asynccontextmanager
async def busy_webhook(api_server: ApiServer, directory: Path) -> AsyncIterator[None]:
    """A webhook for ConfigMaps with a label of ours."""
    certificate, key = self_signed(directory)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    trusted = base64.b64encode(certificate.read_bytes()).decode()
    hook: Json = {"name": "busy.nodeupgrade.test", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
    hook |= {"clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": trusted}, "failurePolicy": "Fail"}
    hook |= {"objectSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}}
    hook |= {
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    }
    configuration = "ValidatingWebhookConfiguration"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": configuration, "webhooks": [hook]}
    kubectl = api_server.kubectl
    path = directory / "webhook.json"
    path.write_text(json.dumps({**body, "metadata": {"name": "busy"}}), encoding="utf-8")
    await asyncio.to_thread(kubectl, "create", "-f", str(path))
    try:
        yield
    finally:
        await asyncio.to_thread(kubectl, "delete", configuration, "busy")
        await runner.cleanup()


def labelled() -> Json:
    return {"metadata": {"name": f"busy-{uuid.uuid4().hex[:8]}", "namespace": "default", "labels": {LABEL: "yes"}}}


async def raw(kube: KubeClient, method: str, path: str, body: Json | None = None) -> tuple[int, bytes, dict[str, str]]:
    session = kube.session()
    async with session.http.request(method, f"{session.server}{path}", json=body) as response:
        return response.status, await response.read(), {key.lower(): value for key, value in response.headers.items()}


async def until_denied(kube: KubeClient) -> tuple[bytes, dict[str, str]]:
    """The answer to a write that the webhook denies; it takes a moment until the API server knows of the webhook."""
    async with asyncio.timeout(60):
        while True:
            status, payload, headers = await raw(kube, "POST", CONFIG_MAPS, labelled())
            if status == 429:
                return payload, headers
            assert status == 201
            await asyncio.sleep(0.5)


async def until_rejected(kube: KubeClient) -> tuple[int, bytes, dict[str, str]]:
    """The answer to one request too many of those that are sent at once."""
    async with asyncio.timeout(60):
        while True:
            answers = await asyncio.gather(*(raw(kube, "GET", "/openapi/v2") for _ in range(20)))
            for answer in answers:
                if answer[0] == 429:
                    return answer


async def test_a_webhook_that_is_busy_concerns_one_request(api_server: ApiServer, tmp_path: Path) -> None:
    """The API server passes the webhook's 429 and its Retry-After on, with the headers of priority and fairness."""
    async with busy_webhook(api_server, tmp_path), KubeClient.open(api_server.kubeconfig(), patience=IMPATIENT) as kube:
        payload, headers = await until_denied(kube)
        assert headers["retry-after"] == str(LATER)
        assert CLASSIFIED in headers
        assert json.loads(payload)["kind"] == "Status"
        assert not is_about_all_requests(429, payload)

        with pytest.raises(UnavailableError, match="denied the request: later") as denied:
            await kube.create(MAPS, labelled())
        assert denied.value.after == LATER
        async with asyncio.timeout(30):
            await kube.list(NODES)
            await kube.create(MAPS, {"metadata": {"name": f"fine-{uuid.uuid4().hex[:8]}", "namespace": "default"}})


async def test_priority_and_fairness_holds_back_the_client(api_server: ApiServer, tmp_path: Path) -> None:
    """It answers with a line of text, and with the same headers. A single request is let through at any time."""
    flow = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    limited = {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}, "borrowingLimitPercent": 0},
    }
    subjects = [{"kind": "User", "user": {"name": "nobody"}}]
    rules = [{"subjects": subjects, "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]
    schema = {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "none-at-all"}, "rules": rules}
    level = {**flow, "kind": "PriorityLevelConfiguration", "metadata": {"name": "none-at-all"}, "spec": limited}
    flows = {**flow, "kind": "FlowSchema", "metadata": {"name": "none-at-all"}, "spec": schema}
    path = tmp_path / "flows.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [level, flows]}), encoding="utf-8")
    await asyncio.to_thread(api_server.kubectl, "create", "-f", str(path))
    try:
        async with KubeClient.open(api_server.kubeconfig("nobody"), patience=IMPATIENT) as kube:
            _, payload, headers = await until_rejected(kube)
            assert payload == b"Too many requests, please try again later.\n"
            assert CLASSIFIED in headers
            assert int(headers["retry-after"]) <= 32
            assert is_about_all_requests(429, payload)
    finally:
        await asyncio.to_thread(api_server.kubectl, "delete", "flowschema,prioritylevelconfiguration", "none-at-all")


async def test_every_answer_says_how_it_was_classified(api_server: ApiServer) -> None:
    """So these headers do not tell a busy API server from a busy webhook."""
    async with KubeClient.open(api_server.kubeconfig()) as kube:
        _, _, headers = await raw(kube, "GET", "/api/v1/nodes")
    assert CLASSIFIED in headers
