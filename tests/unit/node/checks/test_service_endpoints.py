"""Tests how the endpoints of a Service are read."""

from typing import Any

import pytest

from nodeupgrade.node.checks.service_endpoints import answering


def slices(service: str, *names: str, **conditions: bool) -> dict[str, Any]:
    endpoints = [{"targetRef": {"kind": "Pod", "namespace": "shop", "name": name}} for name in names]
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{**each, "addresses": ["10.0.0.1"], "conditions": conditions} for each in endpoints],
    }


def test_who_answers_is_read_from_slices_and_from_endpoints() -> None:
    headless = {"kind": "Service", "metadata": {"namespace": "shop", "name": "raft"}}
    subset = {
        "addresses": [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": "old"}}, {"ip": "10.9.9.9"}],
        "notReadyAddresses": [{"ip": "10.0.0.2"}],
    }
    found = answering(
        [
            {**headless, "spec": {"publishNotReadyAddresses": True}},
            slices("raft", "raft-0"),
            slices("web", "web-1"),
            slices("web", "web-2", ready=True),
            slices("web", "web-3", ready=False),
            {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "nobody's"}, "endpoints": None},
            {"kind": "Endpoints", "metadata": {"namespace": "shop", "name": "old"}, "subsets": [subset]},
        ]
    )

    assert found == {"shop/old": {"shop/old", "10.9.9.9"}, "shop/web": {"shop/web-1", "shop/web-2"}}


@pytest.mark.parametrize(
    "target", [None, {}, {"kind": "Pod"}, {"kind": "Pod", "name": ""}, {"kind": "Pod", "uid": "x"}]
)
def test_an_endpoint_that_names_no_pod_is_known_by_its_addresses(target: dict[str, str] | None) -> None:
    """Controllers and users may write such; nothing validates a targetRef."""
    nameless = {**slices("web", "web-1"), "endpoints": [{"addresses": ["10.0.0.9"], "targetRef": target}]}
    subset = {"addresses": [{"ip": "10.0.0.8", "targetRef": target}]}
    old = {"kind": "Endpoints", "metadata": {"namespace": "shop", "name": "old"}, "subsets": [subset]}

    found = answering([slices("web", "web-1"), nameless, old])

    assert found == {"shop/old": {"10.0.0.8"}, "shop/web": {"shop/web-1", "10.0.0.9"}}
