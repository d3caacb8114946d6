"""Tests which Pods count as reported unready without a reason."""

from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.node.verification.readiness_flaps import Flaps, exposure_seconds
from tests.builders.reported_pods import DELETED, ENDED, READY, UNPROBED, UNREADY, pod


def test_the_exposure_is_told_in_whole_seconds_and_without_pods_that_go() -> None:
    assert exposure_seconds([READY, UNPROBED]) == 26
    assert exposure_seconds([DELETED]) == 0


@pytest.mark.parametrize(("period", "seconds"), [(200, 406), (297, 600), (298, 600), (2**31 - 1, 600)])
def test_nobody_waits_longer_than_ten_minutes(period: int, seconds: int) -> None:
    slow = {**READY, "spec": {"containers": [{"name": "main", "readinessProbe": {"periodSeconds": period}}]}}

    assert exposure_seconds([slow]) == seconds
    assert seen(slow).exposure == timedelta(seconds=seconds)


SERIES: dict[str, tuple[list[Json], bool]] = {
    "always Ready": ([READY, READY], False),
    "unready once": ([READY, UNREADY, READY], True),
    "unknown, as the node controller reports": ([READY, pod("Unknown")], True),
    "never Ready": ([UNREADY, UNREADY], False),
    "becoming Ready": ([UNREADY, READY], False),
    "deleted": ([READY, DELETED], False),
    "its container ended": ([READY, pod("False", state=ENDED)], False),
    "its container is another": ([READY, pod("False", web="web-2")], False),
    "its sidecar is another": ([READY, pod("False", mesh="mesh-2")], False),
    "nothing runs that is known": ([READY, {**UNREADY, "status": {}}], False),
    "finished": ([READY, {**UNREADY, "status": {**UNREADY["status"], "phase": "Succeeded"}}], False),
    "seen unready first, so nobody knows": ([UNREADY, READY, READY], False),
}


def seen(*series: Json) -> Flaps:
    flaps = Flaps()
    for state in series:
        flaps = flaps.after(parse_pod(state))
    return flaps


@pytest.mark.parametrize(("series", "flaps"), SERIES.values(), ids=SERIES.keys())
def test_what_counts(series: list[Json], flaps: bool) -> None:
    assert seen(*series).flapped == (frozenset({"default/web"}) if flaps else frozenset())


def test_who_is_unready_still() -> None:
    assert seen(READY, UNREADY).unready == ("default/web",)
    assert seen(READY, UNREADY, READY).unready == ()
    assert seen(READY, UNREADY, DELETED).unready == ()
    assert seen(READY, UNREADY, pod("False", state=ENDED)).unready == ()
    assert seen(READY, UNREADY).without("1").unready == ()
    assert seen(READY, UNREADY).without("1").flapped == frozenset({"default/web"})


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    assert seen(READY, pod("False", uid="2")).flapped == frozenset()


def test_the_exposure_is_that_of_the_slowest_pod_that_is_here() -> None:
    assert seen(READY).exposure == timedelta(seconds=26)
    assert seen(READY).without("1").exposure == timedelta()
    assert seen(DELETED).exposure == timedelta()
