"""Tests the checks of user namespaces."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.user_ids import UserIds
from nodeupgrade.node.checks.facts import Admission, HostFacts
from tests.builders.admission_record_cases import CHECKS, NAMESPACES, USERNS, WARNINGS
from tests.builders.admitted import admission, pod, recorded, running, userns


@pytest.mark.parametrize(("reason", "found", "told"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_a_record_of_a_user_namespace_is_refused(reason: Reason, found: Admission, told: str) -> None:
    [finding] = ask(CHECKS, found)

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail


def test_a_user_whose_ids_nobody_lists_keeps_a_kubelet_from_starting() -> None:
    without = HostFacts(lacks_getsubids=True)

    [finding] = ask(CHECKS, admission(pod(), host=without, versions=("v1.32.2", "v1.33.1")))
    assert (finding.reason, "no program getsubids" in finding.detail) == (Reason.KUBELET_WOULD_NOT_START, True)
    assert not ask(CHECKS, admission(pod(), host=without, versions=("v1.31.1", "v1.32.2")))
    assert not ask(CHECKS, admission(pod(), host=without, versions=("v1.33.1", "v1.34.2"))), "the old one has started"
    off = admission(pod(), host=without, versions=("v1.32.2", "v1.33.1"), gates={"UserNamespacesSupport": False})
    assert not ask(CHECKS, off)


BEGINS = ("v1.32.2", "v1.33.1")
ENOUGH = (65536, 110 * 65536)


@pytest.mark.parametrize(
    ("ids", "config", "told"),
    [
        (UserIds((), ()), b"", "has no subordinate users"),
        (UserIds((ENOUGH,), ()), b"", "has no subordinate groups"),
        (UserIds((ENOUGH,), ((131072, 110 * 65536),)), b"", "has other subordinate groups than users"),
        (UserIds((ENOUGH,) * 2, (ENOUGH,) * 2), b"", "has several ranges"),
        (UserIds(((0, 2**31),), ((0, 2**31),)), b"", "from 0 on, of which a kubelet takes only multiples of 65536"),
        (UserIds(((100000, 2**31),), ((100000, 2**31),)), b"", "from 100000 on"),
        (UserIds(((65536, 65536000 + 1),), ((65536, 65536000 + 1),)), b"", "has 65536001 subordinate IDs"),
        (UserIds(((65536, 2**32),), ((65536, 2**32),)), b"", "from 65536 on"),
        (UserIds(((65536, 65536),), ((65536, 65536),)), b"", "has 65536 subordinate IDs, too few for 110 pods"),
        (UserIds((ENOUGH,), (ENOUGH,)), b"maxPods: 111", "too few for 111 pods (maxPods) with 65536 each"),
        (UserIds((ENOUGH,), (ENOUGH,)), b"userNamespaces: {idsPerPod: 131072}", "multiples of 131072"),
    ],
)  # fmt: skip
def test_ids_that_are_unfit_keep_a_kubelet_from_starting(ids: UserIds, config: bytes, told: str) -> None:
    [finding] = ask(CHECKS, admission(pod(), host=HostFacts(user_ids=ids), config=config, versions=BEGINS))

    assert (finding.reason, finding.forbids, told in finding.detail) == (Reason.KUBELET_WOULD_NOT_START, True, True)
    later = admission(pod(), host=HostFacts(user_ids=ids), config=config, versions=("v1.33.1", "v1.34.2"))
    assert not ask(CHECKS, later), "the old one has started"


@pytest.mark.parametrize("config", [b"", b"maxPods: many", b"userNamespaces: {idsPerPod: x}"])
def test_ids_that_are_fit_or_not_known_are_no_matter(config: bytes) -> None:
    for ids in (UserIds(), UserIds((), None), UserIds((ENOUGH,), (ENOUGH,))):
        found = ask(CHECKS, admission(pod(), host=HostFacts(user_ids=ids), config=config, versions=BEGINS))
        assert not [each for each in found if each.reason is Reason.KUBELET_WOULD_NOT_START]


@pytest.mark.parametrize(("first", "held"), [(65536, True), (110 * 65536, True), (111 * 65536, False)])
def test_ids_of_a_pod_that_are_not_listed_keep_a_kubelet_from_starting(first: int, *, held: bool) -> None:
    """It has them from a kubelet before 1.30, which took any."""
    host = replace(recorded(web=userns(first)), user_ids=UserIds((ENOUGH,), (ENOUGH,)))
    gates, versions = {"UserNamespacesSupport": True}, ("v1.29.2", "v1.30.1")

    found = ask(CHECKS, admission(running(pod(**USERNS)), host=host, versions=versions, gates=gates))

    assert [f"{each.subject} {each.reason}" for each in found] == ([] if held else ["default/web KubeletWouldNotStart"])
    assert all("are not those of the user kubelet" in each.detail for each in found)


@pytest.mark.parametrize(
    "sound",
    [
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536)), versions=("v1.33.1", "v1.34.2")),
        admission(
            running(pod(**USERNS)),
            host=recorded(web=userns(131072, 131072)),
            config=b"userNamespaces: {idsPerPod: 131072}",
            versions=("v1.33.1", "v1.34.2"),
        ),
        admission(running(pod(**USERNS)), host=recorded(web=b"{"), versions=("v1.31.1", "v1.32.2")),
        admission(pod(**USERNS), versions=("v1.33.1", "v1.34.2")),
        admission(running(pod(hostUsers=True)), versions=("v1.33.1", "v1.34.2")),
    ],
    ids=["as written", "of another length", "without the feature", "not started yet", "of the host"],
)
def test_a_sound_user_namespace_is_no_matter(sound: Admission) -> None:
    assert (*ask(CHECKS, sound), *ask(WARNINGS, sound)) == ()
