"""The server speaks as Cluster API's client expects: HTTPS, status 200, and a certificate that can be exchanged."""

import asyncio
import http.client
import json
import ssl
from pathlib import Path

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.capi.extension import Extension
from nodeupgrade.capi.server import MOST_BYTES, Certificate, served
from tests.builders import cluster_api
from tests.builders.certificates import self_signed
from tests.builders.cluster_api import ROLLOUTS
from tests.doubles.kube import InMemoryKube

ROOT = "/hooks.runtime.cluster.x-k8s.io/v1alpha1"


def ask(port: int, path: str, body: bytes, authority: Path, method: str = "POST") -> tuple[int, bytes]:
    """As Cluster API does: without a Content-Type, and with a timeout in the query."""
    context = ssl.create_default_context(cafile=str(authority))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
    try:
        connection.request(method, f"{path}?timeout=10s", body=body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.fixture
def extension() -> Extension:
    kube = InMemoryKube()
    return Extension(kube, kube, lambda: ROLLOUTS, kube.clock)


async def test_all_hooks_are_found_by_discovery_and_answered(tmp_path: Path, extension: Extension) -> None:
    authority, _ = self_signed(tmp_path)
    asked = {
        "CanUpdateMachine": cluster_api.can_update_machine(cluster_api.spec(), cluster_api.spec()),
        "CanUpdateMachineSet": cluster_api.can_update_machine_set(),
        "UpdateMachine": cluster_api.update_machine("m"),
    }
    async with served(extension, Certificate(tmp_path), "127.0.0.1", 0) as port:

        async def post(path: str, body: Json) -> Json:
            status, answer = await asyncio.to_thread(ask, port, path, json.dumps(body).encode(), authority)
            assert status == 200
            return dict(json.loads(answer))

        found = await post(f"{ROOT}/discovery", cluster_api.request("Discovery"))
        assert {each["requestHook"]["hook"] for each in found["handlers"]} == asked.keys()
        for each in found["handlers"]:
            hook = each["requestHook"]["hook"]
            answer = await post(f"{ROOT}/{hook.lower()}/{each['name']}", asked[hook])
            assert answer["kind"] == f"{hook}Response"
        for path, method in ((f"{ROOT}/discovery/x", "POST"), (f"{ROOT}/updatemachine", "POST"), ("/x", "GET")):
            assert (await asyncio.to_thread(ask, port, path, b"", authority, method))[0] == 404
        assert (await asyncio.to_thread(ask, port, "/healthz", b"", authority, "GET"))[0] == 200
        too_long = b" " * (MOST_BYTES + 1)
        assert (await asyncio.to_thread(ask, port, f"{ROOT}/updatemachine/x", too_long, authority))[0] == 413


async def test_a_defect_is_a_failure_too(tmp_path: Path, extension: Extension, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> Json:
        raise ZeroDivisionError

    monkeypatch.setattr(extension, "answer", fails)
    authority, _ = self_signed(tmp_path)
    async with served(extension, Certificate(tmp_path), "127.0.0.1", 0) as port:
        status, answer = await asyncio.to_thread(ask, port, f"{ROOT}/updatemachine/x", b"{}", authority)
    assert (status, json.loads(answer)["status"]) == (200, "Failure")


async def test_an_exchanged_certificate_is_taken_and_a_broken_one_is_not(tmp_path: Path, extension: Extension) -> None:
    self_signed(tmp_path)
    certificate, other = Certificate(tmp_path), tmp_path / "other"
    other.mkdir()
    authority, _ = self_signed(other)
    (tmp_path / "before.crt").write_bytes(authority.read_bytes())
    async with served(extension, certificate, "127.0.0.1", 0) as port:
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(ask, port, "/healthz", b"", authority, "GET")
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_bytes((other / name).read_bytes())
            certificate.reload()
        assert (await asyncio.to_thread(ask, port, "/healthz", b"", authority, "GET"))[0] == 200
        self_signed(other)
        (tmp_path / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
        certificate.reload()
        authority.write_bytes((tmp_path / "before.crt").read_bytes())
        assert (await asyncio.to_thread(ask, port, "/healthz", b"", authority, "GET"))[0] == 200
