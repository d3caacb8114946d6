"""Tests the checks of what static pods refer to, and of what they have that newer kubelets refuse."""

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.findings.check import ask
from tests.builders.admission_record_cases import CHECKS
from tests.builders.admitted import admission, by_manifest, pod


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"imagePullSecrets": [{"name": "s"}]}, "a Secret"),
        ({"resourceClaims": [{"name": "c"}]}, "a ResourceClaim"),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"configMapKeyRef": {}}}]}]}, None),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"configMapKeyRef": {"name": "m"}}}]}]}, "a ConfigMap"),
        ({"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "m"}}]}]}, "a Secret"),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}, None),
        ({"volumes": [{"name": "v", "hostPath": {}}, {"name": "e"}, {"name": "d", "emptyDir": {}}]}, None),
        ({"volumes": [{"name": "v", "iscsi": {"secretRef": {"name": "s"}}}]}, "a Secret"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "persistentVolumeClaim in a volume"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]}, None),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {}}]}}]},
            "configMap in a projected volume",
        ),
    ],
)
def test_what_a_static_pod_refers_to(spec: Json, told: str | None) -> None:
    found = list(ask(CHECKS, by_manifest(admission(pod(**spec), versions=("v1.33.1", "v1.34.0")))))

    assert [told in finding.detail for finding in found if told] == ([True] if told else [])
    assert len(found) == (told is not None)


@pytest.mark.parametrize(
    "spec",
    [
        {"hostAliases": 5},
        {"hostAliases": ["010.0.0.1"]},
        {"dnsConfig": [1]},
        {"dnsConfig": {"nameservers": "010.0.0.1"}},
    ],
)
def test_a_manifest_that_no_kubelet_reads_is_not_stumbled_over(spec: Json) -> None:
    assert not list(ask(CHECKS, by_manifest(admission(pod(**spec), versions=("v1.35.4", "v1.36.3")))))
