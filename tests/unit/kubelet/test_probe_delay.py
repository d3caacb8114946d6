"""How long a fresh kubelet may need to probe a pod; the real API server is asked the same in tests/contract/kube."""

from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.kubelet.probe_delay import exposure

PROBE = {"periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1}
SLOW = {"periodSeconds": 30, "timeoutSeconds": 4, "successThreshold": 2}

CASES: dict[str, tuple[Json, int]] = {
    "no probes": ({"containers": [{}]}, 5),
    "a liveness probe keeps no pod from being Ready": ({"containers": [{"livenessProbe": SLOW}]}, 5),
    "one readiness probe": ({"containers": [{"readinessProbe": PROBE}]}, 5 + 21),
    "each success takes a period": ({"containers": [{"readinessProbe": SLOW}]}, 5 + 94),
    "startup first, then readiness": ({"containers": [{"startupProbe": PROBE, "readinessProbe": SLOW}]}, 5 + 21 + 94),
    "the slowest container decides": ({"containers": [{"startupProbe": SLOW}, {"readinessProbe": PROBE}]}, 5 + 94),
    "a sidecar counts": (
        {"containers": [{}], "initContainers": [{"restartPolicy": "Always", "readinessProbe": PROBE}]},
        5 + 21,
    ),
    "an init container is over": ({"containers": [{}], "initContainers": [{"readinessProbe": SLOW}]}, 5),
    "what the API server fills in": ({"containers": [{"readinessProbe": {"exec": {}}}]}, 5 + 21),
}


@pytest.mark.parametrize(("spec", "seconds"), CASES.values(), ids=CASES.keys())
def test_the_exposure_of_a_pod(spec: Json, seconds: int) -> None:
    assert exposure({"spec": spec}).total_seconds() == seconds


@pytest.mark.parametrize("kind", ["startupProbe", "readinessProbe"])
@pytest.mark.parametrize("field", ["periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold", "all"])
def test_whatever_number_the_api_server_takes_is_a_time(kind: str, field: str) -> None:
    """It has an upper bound for none of them but that of the type."""
    probe = {name: 2**31 - 1 if field in {name, "all"} else 1 for name in (*PROBE, "failureThreshold")}

    assert timedelta() < exposure({"spec": {"containers": [{kind: probe}] * 2}})
