"""Tests that each check reports only the reasons that it declares, and that some case triggers it."""

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Check, ask, checks_of
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
from nodeupgrade.node.checks.kubelet import release_harms_no_pod
from nodeupgrade.node.checks.registry import CHECKS, OF_ADMISSION, preflight
from nodeupgrade.node.checks.resizing import resizes_are_over
from nodeupgrade.node.checks.startup import Readiness
from tests.builders import (
    admission_cases,
    admission_record_cases,
    clock_cases,
    dependants,
    file_cases,
    lifecycle_cases,
    node_cases,
    readiness_cases,
    release_cases,
    socket_cases,
    surroundings_cases,
    traffic_cases,
    volume_cases,
)
from tests.builders.node_cases import DEFECTS, SOUND
from tests.builders.sound import facts, readiness, traffic


def every(*modules: ModuleType) -> tuple[Check[Any], ...]:
    return (*checks_of(*modules, warns=False), *checks_of(*modules, warns=True))


def of_facts(kind: type[object], *modules: ModuleType) -> tuple[Check[Any], ...]:
    return tuple(each for each in every(*modules) if each.facts is kind)


Cases = tuple[tuple[Check[Any], ...], Iterable[Any]]

ROOMS: dict[str, Cases] = {
    "the node": (registry.CHECKS, [facts(**defect) for _, defect in node_cases.DEFECTS.values()]),
    "files": (every(files), [given for _, given in file_cases.REFUSED.values()]),
    "startup": (
        of_facts(Readiness, cgroups, startup, changed_settings, credentials, host),
        [readiness(**defect) for _, defect, _ in readiness_cases.DEFECTS.values()],
    ),
    "admission": (
        registry.OF_ADMISSION,
        [found for found, _, _ in admission_cases.CASES.values()] + admission_record_cases.TRIED,
    ),
    "pod_lifecycle": (
        every(pod_lifecycle, resizing),
        [found for _, found, _, _ in (*lifecycle_cases.OBJECTIONS.values(), *lifecycle_cases.CAUTIONS.values())],
    ),
    "probes": (
        every(probes),
        [traffic(**given) for _, _, given in (*traffic_cases.OBJECTIONS.values(), *traffic_cases.CAUTIONS.values())],
    ),
    "service_endpoints": (
        every(traffic_checks),
        [traffic(**given) for _, _, given in (*traffic_cases.OBJECTIONS.values(), *traffic_cases.CAUTIONS.values())]
        + [dependants.seen(dependants.API), dependants.seen(dependants.budget({}))],
    ),
    "releases": (
        (kubelet.release_harms_no_pod, kubelet.release_has_no_known_flaw),
        [facts(target=target, **release_cases.CONCERNED[name]) for name, target in release_cases.targets()],
    ),
    "volumes": (
        every(volumes),
        [found for *_, found in (*volume_cases.REFUSED.values(), *volume_cases.CAUTIONS.values())],
    ),
    "surroundings": (
        (
            *(kubelet.kubelet_keeps_its_name, units.nothing_else_stops, units.systemd_is_new_enough),
            *of_facts(NodeFacts, host, other_tools),
            *(cgroups.pods_have_their_controllers, cgroups.devices_outlast_a_reload, cgroups.limit_covers_usage),
        ),
        [surroundings_cases.around(**given) for *_, given in surroundings_cases.REFUSED.values()]
        + [surroundings_cases.around(marking=surroundings_cases.CNI), clock_cases.SLOW]
        + [surroundings_cases.around(updaters=other_tools.UPDATERS)]
        + [surroundings_cases.around(installers=tuple(other_tools.INSTALLERS))],
    ),
    "sockets": (
        (hashes.sockets_are_not_mounted, hashes.nobody_hangs_on_the_runtime),
        [socket_cases.using(socket_cases.MOUNTS, socket_cases.FOLLOWS)],
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


@pytest.mark.parametrize("sound", SOUND.values(), ids=SOUND.keys())
def test_nothing_is_said_about_a_sound_node(sound: dict[str, Any]) -> None:
    assert preflight(facts(**sound)) == ()


NOT_OF_ADMISSION = [check for check in CHECKS if check.name not in {each.name for each in OF_ADMISSION}]
SUBJECTS = {"cgroups", "credentials", "kubelet", "placement", "pods", "resizing", "runtime", "units"}
"""Rooms whose checks of a node's facts are tried here one by one; others have tests of their own."""
ELSEWHERE = {check.name for check in (*surroundings_cases.CHECKS, resizes_are_over, release_harms_no_pod)}


@pytest.mark.parametrize(("reason", "defect"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_defect_is_named_once(reason: Reason, defect: dict[str, Any]) -> None:
    found = ask(NOT_OF_ADMISSION, facts(**defect))

    assert [finding.reason for finding in found] == [reason], [str(finding) for finding in found]
    assert found[0].detail


def test_every_check_is_tried_by_some_defect() -> None:
    own = [
        check
        for check in CHECKS
        if check.room.rpartition(".checks.")[2] in SUBJECTS and check.facts is NodeFacts and check.name not in ELSEWHERE
    ]
    silent = {check.name for check in own} - {
        check.name for check in own for _, defect in DEFECTS.values() if any(check(facts(**defect)))
    }

    assert silent == set()


def test_what_is_wrong_with_pods_names_them() -> None:
    def subjects(name: str) -> list[str]:
        return [finding.subject for finding in preflight(facts(**DEFECTS[name][1]))]

    assert subjects("a sandbox without an address") == subjects("a cgroup that moves") == ["default/web"]
    assert subjects("a restarting resize policy") == subjects("nothing stored") == ["default/web/nginx"]
    assert subjects("no space for the journal") == [""]


def test_the_complaint_about_a_flag_is_told_with_a_remedy() -> None:
    (finding,) = preflight(facts(**DEFECTS["flags it does not know"][1]))

    assert "unknown flag: --foo" in finding.detail
    assert "spec.kubelet.removeFlags" in finding.detail


def test_the_way_back_is_judged_only_if_files_are_exchanged() -> None:
    assert all(not list(each(facts())) for each in registry.WAY_BACK)
