"""All checks: each finds something in some case under the reasons it declares; docs/generated/preflight.md lists it."""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest

from e2e.preflight.shown import NOT_SHOWN, SHOWN
from nodeupgrade.check_catalogue import EVERY
from nodeupgrade.findings.check import Check, check, checks_of
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks import (
    cgroups,
    changed_settings,
    credentials,
    files,
    hashes,
    host,
    kubelet,
    other_tools,
    pod_lifecycle,
    probes,
    registry,
    resizing,
    startup,
    units,
    volumes,
)
from nodeupgrade.node.checks import traffic as traffic_checks
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.startup import Readiness
from tests.unit.domain.node.checks import (
    test_dependants,
    test_files,
    test_pod_lifecycle,
    test_preflight,
    test_readiness,
    test_releases,
    test_sockets,
    test_traffic,
)
from tests.unit.domain.node.checks.admission import test_admission, test_admission_records
from tests.unit.domain.node.checks.sound import facts, readiness, traffic
from tests.unit.domain.node.checks.start import test_clock, test_surroundings, test_volumes


def every(*modules: ModuleType) -> tuple[Check[Any], ...]:
    return (*checks_of(*modules, warns=False), *checks_of(*modules, warns=True))


def of_facts(kind: type[object], *modules: ModuleType) -> tuple[Check[Any], ...]:
    return tuple(each for each in every(*modules) if each.facts is kind)


Cases = tuple[tuple[Check[Any], ...], Iterable[Any]]

ROOMS: dict[str, Cases] = {
    "the node": (registry.CHECKS, [facts(**defect) for _, defect in test_preflight.DEFECTS.values()]),
    "files": (every(files), [given for _, given in test_files.REFUSED.values()]),
    "startup": (
        of_facts(Readiness, cgroups, startup, changed_settings, credentials, host),
        [readiness(**defect) for _, defect, _ in test_readiness.DEFECTS.values()],
    ),
    "admission": (
        registry.OF_ADMISSION,
        [found for found, _, _ in test_admission.CASES.values()] + test_admission_records.TRIED,
    ),
    "pod_lifecycle": (
        every(pod_lifecycle, resizing),
        [found for _, found, _, _ in (*test_pod_lifecycle.OBJECTIONS.values(), *test_pod_lifecycle.CAUTIONS.values())],
    ),
    "probes": (
        every(probes),
        [traffic(**given) for _, _, given in (*test_traffic.OBJECTIONS.values(), *test_traffic.CAUTIONS.values())],
    ),
    "service_endpoints": (
        every(traffic_checks),
        [traffic(**given) for _, _, given in (*test_traffic.OBJECTIONS.values(), *test_traffic.CAUTIONS.values())]
        + [test_dependants.seen(test_dependants.API), test_dependants.seen(test_dependants.budget({}))],
    ),
    "releases": (
        (kubelet.release_harms_no_pod, kubelet.release_has_no_known_flaw),
        [facts(target=target, **test_releases.CONCERNED[name]) for name, target in test_releases.targets()],
    ),
    "volumes": (
        every(volumes),
        [found for *_, found in (*test_volumes.REFUSED.values(), *test_volumes.CAUTIONS.values())],
    ),
    "surroundings": (
        (
            *(kubelet.kubelet_keeps_its_name, units.nothing_else_stops, units.systemd_is_new_enough),
            *of_facts(NodeFacts, host, other_tools),
            *(cgroups.pods_have_their_controllers, cgroups.limit_covers_usage),
        ),
        [test_surroundings.around(**given) for *_, given in test_surroundings.REFUSED.values()]
        + [test_surroundings.around(marking=test_surroundings.CNI), test_clock.SLOW]
        + [test_surroundings.around(installers=tuple(other_tools.INSTALLERS))],
    ),
    "sockets": (
        (hashes.sockets_are_not_mounted, hashes.nobody_hangs_on_the_runtime),
        [test_sockets.using(test_sockets.MOUNTS, test_sockets.FOLLOWS)],
    ),
}


@pytest.mark.parametrize("cases", ROOMS.values(), ids=ROOMS.keys())
def test_a_check_finds_nothing_under_a_reason_that_it_does_not_declare(cases: Cases) -> None:
    checks, tried = cases

    for one in checks:
        assert {finding.reason for each in tried for finding in one(each)} <= set(one.reasons), one.name


@pytest.mark.parametrize("room", ["probes", "service_endpoints", "releases", "volumes", "surroundings", "sockets"])
def test_every_check_of_these_rooms_is_tried_by_some_case(room: str) -> None:
    checks, tried = ROOMS[room]

    assert [one.name for one in checks if not any(any(one(each)) for each in tried)] == []


def test_every_check_says_what_holds_and_why_it_may_not() -> None:
    for one in EVERY:
        assert one.holds.endswith("."), one.name
        assert one.reasons, one.name


def test_no_two_checks_have_one_name_in_a_room() -> None:
    names = [(one.room, one.name) for one in EVERY]

    assert len(names) == len(set(names))


def test_checks_of_one_name_are_accepted_together_or_not_at_all() -> None:
    acceptable: dict[str, set[bool]] = {}
    for one in EVERY:
        acceptable.setdefault(one.name, set()).add(one.acceptable)

    assert {name: both for name, both in acceptable.items() if len(both) > 1} == {}


def test_every_check_is_shown_on_a_real_node_or_it_is_said_why_not() -> None:
    assert {*SHOWN, *NOT_SHOWN} == {one.name for one in EVERY}
    assert SHOWN.keys() & NOT_SHOWN.keys() == set()


@check()
def nothing_is_odd(numbers: tuple[int, ...]) -> Iterator[Finding]:
    """No number is odd,
    whatever it is.

    The rest is for who reads the code.
    """
    yield from ()


def test_a_check_is_named_and_explained_by_its_function() -> None:
    assert (nothing_is_odd.name, nothing_is_odd.room) == ("nothing_is_odd", __name__)
    assert nothing_is_odd.holds == "No number is odd, whatever it is."
