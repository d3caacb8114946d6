"""What `action: Plan` says about a node: every finding, with the check that has it."""

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.cluster import Cluster, Object
from e2e.lab.process import wait_until
from nodeupgrade.check_catalogue import ROLLOUT_CHECKS

PLAN_SECONDS = 300
BY_REASON = {str(reason): check.name for check in ROLLOUT_CHECKS for reason in check.reasons}
"""The check of the control plane that has a reason; a NodeUpgrade's status names only the reason."""


@dataclass(frozen=True)
class Found:
    """One finding, as the API shows it."""

    check: str
    reason: str
    detail: str
    subject: str = ""
    warning: bool = False
    accepted: bool = False


@dataclass(frozen=True)
class Look:
    """What was said about the node."""

    verdict: str  # `Prechecked`, `Refused`, `Skipped`, or `Waiting` if the rollout waits for something
    reason: str
    found: tuple[Found, ...]
    task: Object  # status of the node's task; empty if the control plane objected before there was one

    def forbidding(self) -> set[str]:
        """Return the checks that forbid the upgrade."""
        return {each.check for each in self.found if not each.warning}


def planned(cluster: Cluster, name: str) -> Object:
    """Wait until the plan is made, and return the NodeUpgrade."""

    def made() -> Object | None:
        found = cluster.get(name)
        return found if found.get("status", {}).get("phase") == "Planned" else None

    return wait_until(f"the plan of NodeUpgrade {name}", made, timeout=PLAN_SECONDS, interval=0.25)


def look(cluster: Cluster, name: str, version: str, **spec: object) -> Look:
    """Have the node examined only, wait until nothing of that is left, and return what was found."""
    given = spec.pop("artifact", None)
    artifact = given if isinstance(given, dict) else cluster.pre_staged(version)
    cluster.apply(name, version, artifact, action="Plan", **spec)
    try:
        return wait_until(f"a verdict on NodeUpgrade {name}", lambda: _verdict(cluster, name), timeout=PLAN_SECONDS)
    finally:
        cluster.delete(name)
        cluster.wait_without_agent()


def _verdict(cluster: Cluster, name: str) -> Look | None:
    upgrade = cluster.get(name)
    status = upgrade.get("status", {})
    for failure in status.get("failures", ()):
        if failure.get("step") == "admission":
            return _of_rollout("Refused", failure["reason"], failure["message"])
    if status.get("phase") != "Planned":
        return None
    for reason in status.get("skips", {}):
        return _of_rollout("Skipped", reason, "")
    return _of_task(cluster.task().get("status", {}))


def _of_rollout(verdict: str, reason: str, message: str) -> Look:
    return Look(verdict, reason, (Found(BY_REASON.get(reason, "?"), reason, message),), {})


def _of_task(status: Object) -> Look:
    return Look(status["phase"], status["reason"], tuple(_hazards(status)), status)


def _hazards(status: Object) -> Iterator[Found]:
    for each in status.get("hazards", ()):
        yield Found(
            check=each.get("check", ""),
            reason=each["reason"],
            detail=each["detail"],
            subject=each.get("pod", ""),
            warning=each.get("warning", False),
            accepted=each.get("accepted", False),
        )
