"""Tests how endpoints are watched."""

from e2e.lab.workloads.traffic import Tally
from e2e.lab.workloads.trafficprobe import Eyes


def slice_of(*ready: bool, name: str = "web") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "endpoints": [
            {"addresses": [f"10.244.1.{n}"], "conditions": {"ready": is_ready},
             "targetRef": {"kind": "Pod", "name": f"web-{n}"}}
            for n, is_ready in enumerate(ready)
        ],
    }  # fmt: skip


def test_endpoints_that_leave_their_slice_are_lost() -> None:
    eyes = Eyes(Tally(began=0.0))
    eyes.slice("ADDED", slice_of(True, True, False))
    eyes.slice("MODIFIED", slice_of(True, False))
    assert eyes.addresses == {"10.244.1.0", "10.244.1.1"}
    eyes.slice("DELETED", slice_of())
    report = eyes.tally.report(1e9)
    assert report.endpoints == 2
    assert report.endpoints_lost == ("web-0 10.244.1.0", "web-1 10.244.1.1")
