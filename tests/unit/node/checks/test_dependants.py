"""Tests which objects depend on the readiness of Pods."""

from nodeupgrade.node.checks.dependants import dependants
from tests.builders.dependants import API, ELSEWHERE, SERVICE, found, hooks
from tests.builders.traffic_cases import KEPT

LOCAL_API = {"kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {}}


def test_what_calls_nobody_is_no_dependant() -> None:
    assert dependants([LOCAL_API, hooks("Validating", None), {"kind": "Service", "metadata": SERVICE}]).callers == ()
    assert found() == found(API, ready=ELSEWHERE, target=KEPT) == []
