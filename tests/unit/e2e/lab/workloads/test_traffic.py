"""Tests how a Service's traffic is summed up."""

from e2e.lab.workloads.traffic import Absences, Tally, parse, render


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


def test_a_report_is_read_as_it_was_written() -> None:
    tally = Tally(began=1.0)
    tally.answered(0.25, True)
    tally.answered(5.0, False)
    report = tally.report(11.0)
    assert (report.seconds, report.requests, report.failed, report.slowest) == (10.0, 2, 1, 5.0)
    assert parse(f"watching\n{render(report)}\n") == report
