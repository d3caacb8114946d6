"""Tests the checks of credentials that only the kubelet can use."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.node.checks.credentials import credentials_can_be_used
from nodeupgrade.node.checks.registry import preflight
from tests.builders.node_cases import WHY, guarded
from tests.builders.sound import facts


@pytest.mark.parametrize(
    ("policy", "wanted", "refused", "warned"),
    [
        (GuardPolicy.REQUIRE, True, 1, 0),
        (GuardPolicy.REQUIRE, False, 0, 1),  # the new kubelet keeps the results of probes
        (GuardPolicy.AUTO, True, 0, 1),
        (GuardPolicy.OFF, False, 0, 1),
    ],
)
def test_credentials_that_only_the_kubelet_can_use(
    policy: GuardPolicy, wanted: bool, refused: int, warned: int
) -> None:
    """No guard, no renewed Lease, no claim: what that means is said before anything is touched."""
    found = facts(unusable_credentials=WHY, spec=guarded(policy, wanted=wanted))

    warnings = tuple(credentials_can_be_used(found))

    assert len(preflight(found)) == refused
    assert [(each.reason, each.forbids) for each in warnings] == [(Reason.READINESS_GUARD_UNAVAILABLE, False)] * warned
    assert all(WHY in each.detail for each in (*preflight(found), *warnings))
