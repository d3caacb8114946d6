"""Tests which objects count as workloads, and where their templates are."""

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cli.inputs.workloads import template_of

POD_SPEC: Json = {"containers": [{"name": "web", "image": "i"}]}
TEMPLATE: Json = {"template": {"spec": POD_SPEC}}


@pytest.mark.parametrize(
    ("api_version", "kind", "body"),
    [
        ("apps/v1", "Deployment", {"spec": TEMPLATE}),
        ("extensions/v1beta1", "DaemonSet", {"spec": TEMPLATE}),
        ("apps/v1", "StatefulSet", {"spec": TEMPLATE}),
        ("apps/v1", "ReplicaSet", {"spec": TEMPLATE}),
        ("v1", "ReplicationController", {"spec": TEMPLATE}),
        ("batch/v1", "Job", {"spec": TEMPLATE}),
        ("batch/v1beta1", "CronJob", {"spec": {"jobTemplate": {"spec": TEMPLATE}}}),
        ("v1", "PodTemplate", TEMPLATE),
    ],
)
def test_the_template_of_each_workload_is_found(api_version: str, kind: str, body: Json) -> None:
    workload = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, **body}
    assert template_of(workload) == {"metadata": {"name": "web", "namespace": "shop"}, "spec": POD_SPEC}

    owned = {**workload, "metadata": {"name": "web", "ownerReferences": [{"kind": "X", "controller": True}]}}
    assert template_of(owned) is None
    assert template_of({**workload, "apiVersion": "batch.volcano.sh/v1alpha1"}) is None


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "apps/v1", "kind": ["Deployment"], "metadata": {}},
        {"apiVersion": 5, "kind": "Deployment", "metadata": {}, "spec": TEMPLATE},
        {"apiVersion": "v1", "kind": "Service", "metadata": {}},
    ],
)
def test_other_shapes_are_no_workloads(body: Json) -> None:
    assert template_of(body) is None


def test_a_workload_without_a_template_has_no_spec() -> None:
    found = template_of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": [1]})
    assert found == {"metadata": {"name": "web"}, "spec": None}
