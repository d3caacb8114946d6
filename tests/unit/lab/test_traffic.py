"""What is added up of a Service's traffic."""

from e2e.lab.workloads.traffic import Absences, Tally, parse, render
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


def test_only_what_was_there_is_missed_and_only_while_it_is_away() -> None:
    seen = Absences()
    seen.note("a", False, 1.0)  # not ready yet
    seen.note("a", True, 2.0)
    seen.note("a", False, 3.0)
    seen.note("a", False, 4.0)
    seen.note("a", True, 5.5)
    seen.note("b", True, 5.5)
    seen.note("b", False, 6.0)
    seen.end(8.0)
    assert seen.lost == {"a": 2.5, "b": 2.0}


def test_what_goes_on_purpose_is_not_missed() -> None:
    seen = Absences()
    seen.note("a", True, 1.0)
    seen.forget("a", 2.0)
    seen.note("a", False, 3.0)
    seen.end(9.0)
    assert seen.lost == {}


def test_endpoints_that_leave_their_slice_are_lost() -> None:
    eyes = Eyes(Tally(began=0.0))
    eyes.slice("ADDED", slice_of(True, True, False))
    eyes.slice("MODIFIED", slice_of(True, False))
    assert eyes.addresses == {"10.244.1.0", "10.244.1.1"}
    eyes.slice("DELETED", slice_of())
    report = eyes.tally.report(1e9)
    assert report.endpoints == 2
    assert report.endpoints_lost == ("web-0 10.244.1.0", "web-1 10.244.1.1")


def test_a_report_is_read_as_it_was_written() -> None:
    tally = Tally(began=1.0)
    tally.answered(0.25, True)
    tally.answered(5.0, False)
    report = tally.report(11.0)
    assert (report.seconds, report.requests, report.failed, report.slowest) == (10.0, 2, 1, 5.0)
    assert parse(f"watching\n{render(report)}\n") == report
