"""Tests that rollouts with artifacts or files outside the allowlist are rejected."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.admission import accept
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.allowlist import ALLOWED, SHA
from tests.scenario.rollout.harness import upgrade_object

ARTIFACTS: dict[str, Json] = {
    "image": {"image": {"ref": f"evil.example/kubelet@sha256:{SHA}", "path": "/kubelet"}},
    "one platform of two": {
        "platforms": {
            "linux-amd64": {"url": "https://dl.k8s.io/kubelet", "sha256": SHA},
            "linux-arm64": {"url": "https://evil.example/kubelet", "sha256": SHA},
        }
    },
    "program": {"preStaged": {"linux-amd64": {"path": "/tmp/evil", "sha256": SHA}}},
}


@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=ARTIFACTS)
def test_the_whole_rollout_is_rejected(artifact: Json) -> None:
    body = upgrade_object(artifact=artifact)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = accept(parse_upgrade(body), now, ALLOWED)
    assert isinstance(found, Finding)
    assert found.reason is Reason.NOT_ALLOWED
    assert not isinstance(accept(parse_upgrade(body), now), Finding), "the control: nothing else is wrong with it"


def test_a_rollout_with_a_file_that_is_not_listed_is_rejected() -> None:
    source = {"name": "kubelet", "key": "config.yaml"}
    file = {"path": "/var/lib/kubelet/config.yaml", "sha256": SHA, "configMapKeyRef": source}
    artifact = {"preStaged": {"linux-amd64": {"path": "/opt/kubelet/k", "sha256": SHA}}}
    body = upgrade_object(artifact=artifact, files=[file])
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = accept(parse_upgrade(body), now, Allowed())
    assert isinstance(found, Finding)
    assert (found.reason, found.detail) == (
        Reason.NOT_ALLOWED, "the operator's configuration does not allow the file /var/lib/kubelet/config.yaml"
    )  # fmt: skip
    allowed = replace(Allowed(), files=("/var/lib/kubelet/config.yaml",))
    assert not isinstance(accept(parse_upgrade(body), now, allowed), Finding), "the control: it is listed"
