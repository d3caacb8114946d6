"""What follows from a finding, and what people are told of it."""

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.findings.finding import Finding


def test_what_follows_and_what_to_do_is_said_of_the_reason() -> None:
    found = Finding(reason=Reason.INSUFFICIENT_SPACE, subject="node-0", detail="1 MiB is free")

    assert (found.weight, found.forbids) == (Severity.REFUSE, True)
    assert found.message == "1 MiB is free; free space on the node."
    assert str(found) == "node-0: 1 MiB is free"


def test_a_finding_may_weigh_less_than_its_reason() -> None:
    assert not Finding(reason=Reason.CONFIGURATION_DRIFT, detail="x", severity=Severity.WARN).forbids
    assert not Finding(reason=Reason.READINESS_PROBE_FAILING, detail="x").forbids
    assert Finding(reason=Reason.ALREADY_AT_TARGET, detail="x").weight is Severity.SKIP


def test_a_remedy_may_be_another_or_part_of_the_detail() -> None:
    assert Finding(reason=Reason.PAUSED, detail="braked", remedy="let go").message == "braked; let go."
    assert Finding(reason=Reason.PAUSED, detail="braked: let go", remedy="").message == "braked: let go"
    assert Finding(reason=Reason.SUCCEEDED, detail="it runs").message == "it runs."
