"""Tests the QoS class that each kubelet computes."""

from typing import Any

import pytest

from nodeupgrade.kubelethash import qos_class

BOTH = {"cpu": "1", "memory": "1Gi"}
GUARANTEED = {"limits": BOTH, "requests": {"cpu": "1000m", "memory": "1024Mi"}}


def pod(containers: list[Any], init: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    named = [{"name": f"c{index}", "resources": each} for index, each in enumerate(containers)]
    inits = [{"name": f"i{index}", "resources": each} for index, each in enumerate(init or [])]
    return {"spec": {"containers": named, "initContainers": inits, **more.pop("spec", {})}, **more}


UNEVEN = [
    {"limits": BOTH, "requests": {"cpu": "1", "memory": "512Mi"}},
    {"limits": BOTH, "requests": {"cpu": "1", "memory": "1536Mi"}},
]


@pytest.mark.parametrize(
    ("subject", "classes"),
    [
        pytest.param(pod([GUARANTEED]), {"1.5": "Guaranteed", "1.37": "Guaranteed"}, id="guaranteed"),
        pytest.param(pod([{}]), {"1.5": "BestEffort", "1.37": "BestEffort"}, id="best effort"),
        pytest.param(pod([GUARANTEED, {}]), {"1.5": "Burstable", "1.37": "Burstable"}, id="one unlimited"),
        pytest.param(pod([{"requests": {"cpu": "0"}}]), {"1.5": "BestEffort", "1.37": "BestEffort"}, id="zero"),
        pytest.param(pod([GUARANTEED], [{}]), {"1.15": "Guaranteed", "1.16": "Burstable"}, id="unlimited init"),
        pytest.param(pod([{}], [GUARANTEED]), {"1.15": "BestEffort", "1.16": "Burstable"}, id="limited init"),
        pytest.param(
            pod([{"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}]),
            {"1.7": "BestEffort", "1.8": "Burstable", "1.9": "Burstable", "1.10": "BestEffort"},
            id="huge pages",
        ),
        pytest.param(
            pod([{}], status={"qosClass": "Guaranteed"}),
            {"1.28": "BestEffort", "1.29": "Guaranteed"},
            id="status",
        ),
        pytest.param(
            pod([{}], spec={"resources": GUARANTEED}),
            {"1.33": "BestEffort", "1.34": "Guaranteed"},
            id="resources of the pod",
        ),
        pytest.param(
            pod([GUARANTEED], spec={"resources": {}}),
            {"1.33": "Guaranteed", "1.34": "BestEffort", "1.36": "BestEffort", "1.37": "Guaranteed"},
            id="resources of the pod that say nothing",
        ),
        pytest.param(
            pod([GUARANTEED], spec={"resources": {"requests": {"hugepages-2Mi": "0"}}}),
            {"1.36": "BestEffort", "1.37": "BestEffort"},
            id="resources of the pod that say something else",
        ),
        pytest.param(
            pod([{"limits": BOTH}], [{}]),
            {"1.15": "Guaranteed", "1.16": "Burstable"},
            id="a manifest's limits are its requests",
        ),
        pytest.param(
            pod([{}], spec={"resources": {"limits": BOTH}}),
            {"1.33": "BestEffort", "1.34": "Guaranteed", "1.36": "Guaranteed", "1.37": "Burstable"},
            id="a manifest's limits of the pod",
        ),
        pytest.param(pod(UNEVEN), {"1.36": "Guaranteed", "1.37": "Burstable"}, id="equal in sum only"),
    ],
)
def test_qos_class_is_what_the_minor_computes(subject: dict[str, Any], classes: dict[str, str]) -> None:
    assert {kubelet: qos_class(subject, kubelet) for kubelet in classes} == classes


def test_resources_of_the_pod_that_a_kubelet_forgets_do_not_count() -> None:
    assert qos_class(pod([{}], spec={"resources": GUARANTEED}), "1.36", forgets=True) == "BestEffort"
    assert qos_class(pod([GUARANTEED], spec={"resources": {}}), "1.36", forgets=True) == "Guaranteed"
