"""A notice of a stalled rollout."""

from datetime import UTC, datetime

from nodeupgrade.fleet.notices.notice import Notice

NOTICE = Notice(
    id="abc",
    upgrade="to-1-33",
    uid="u-1",
    version="v1.33.13",
    time=datetime(2026, 1, 1, tzinfo=UTC),
    phase="Stalled",
    reason="FailureThresholdReached",
    message="2 nodes failed; <see> status.failures & more.",
    stalled=True,
    progress="3/9",
    failed=2,
    restarted=0,
    wave="canary",
)
