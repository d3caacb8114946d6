"""Tests that rollouts with artifacts or files outside the allowlist are rejected, and what is asked of pods."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.pods import CONFIG_HASH, CONFIG_MIRROR, for_admission, parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.admission import accept
from nodeupgrade.fleet.decide.admission_checks import WARNINGS, WITH_PODS
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.allowlist import ALLOWED, SHA
from tests.doubles.kube_fleet import node_object
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


OBJECTING: dict[str, Json] = {
    "node selector": {"spec": {"nodeSelector": {"pool": "old"}}},
    "node affinity": {
        "spec": {
            "affinity": {
                "podAffinity": {"x": "y"},
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
                    }
                },
            }
        }
    },
    "no toleration": {},
    "toleration": {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    "hold": {"metadata": {"annotations": {"nodeupgrade.dev/hold": "busy", "note": "x"}}},
    "static": {"metadata": {"annotations": {CONFIG_MIRROR: "h", CONFIG_HASH: "h"}}},
    "Longhorn": {"metadata": {"labels": {"longhorn.io/component": "instance-manager"}}},
    "terminating": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "finished": {"status": {"phase": "Failed"}},
}


@pytest.mark.parametrize("body", OBJECTING.values(), ids=OBJECTING)
def test_admission_finds_in_the_part_of_a_pod_what_it_finds_in_the_whole(body: Json) -> None:
    node = node_object("node-0", "v1.30.14")
    node["metadata"] |= {"uid": "n", "resourceVersion": "1"}
    node["spec"]["taints"] = [{"key": "gpu", "effect": "NoExecute"}]
    upgrade = upgrade_object("r")
    upgrade["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}
    parsed, view = parse_upgrade(upgrade), view_node(node)
    assert parsed.spec is not None
    fleet = FleetSnapshot(upgrade=parsed, server=KubeletVersion.parse("v1.33.13"), nodes={view.name: view})
    known = {"namespace": "default", "name": "web", "uid": "u-1"}
    pod = {**body, "metadata": {**known, **body.get("metadata", {})}}
    candidate = Candidate.of(fleet, parsed.spec, view, datetime(2026, 1, 1, tzinfo=UTC))
    whole, part = (replace(candidate, pods=(parse_pod(each),)) for each in (pod, for_admission(pod)))
    for check in (*WITH_PODS, *WARNINGS):
        assert check(whole) == check(part), check.name
    assert (whole.pods or ())[0].labels == (part.pods or ())[0].labels
