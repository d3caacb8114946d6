"""Ready says what matters most: that a person is needed, else what is in the way, else how far the rollout is."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import ConditionType, RolloutPhase, UpgradeStatus
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide import conditions
from nodeupgrade.fleet.decide.phase import RolloutState

OBJECTION = Finding(reason=Reason.INVALID_SPEC, detail="the spec is wrong", remedy="")
IMPEDED = Finding(reason=Reason.AGENT_UNAVAILABLE, subject="node-0", detail="node node-0: refused", remedy="")


@pytest.mark.parametrize(
    ("stalled", "impeded_by", "reason"),
    [
        (True, (IMPEDED,), Reason.INVALID_SPEC),
        (False, (IMPEDED,), Reason.AGENT_UNAVAILABLE),
        (False, (), Reason.INVALID_SPEC),
    ],
    ids=["a person is needed", "something is in the way", "it progresses"],
)
def test_ready_says_what_matters_most(stalled: bool, impeded_by: tuple[Finding, ...], reason: Reason) -> None:
    state = RolloutState(phase=RolloutPhase.RUNNING, reason=OBJECTION.reason, message="as it stands", stalled=stalled)
    told = conditions.of_rejected(UpgradeStatus(), OBJECTION, state, impeded_by)
    assert told[ConditionType.READY].reason == reason
    others = [told[kind].reason for kind in (ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.SUCCEEDED)]
    assert others == [OBJECTION.reason] * 3, "these tell how the rollout as a whole stands"
