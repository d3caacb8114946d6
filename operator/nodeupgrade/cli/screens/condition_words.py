"""What the conditions of a NodeUpgrade mean in words, by status, with a colour."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import Condition, ConditionType
from nodeupgrade.cli.screens.words import BAD, BUSY, FAINT, GOOD

MEANINGS: dict[str, dict[str, tuple[str, str]]] = {
    ConditionType.ACCEPTED: {
        "True": ("the spec is valid", GOOD),
        "False": ("the spec is not accepted", BAD),
    },
    ConditionType.PLANNED: {
        "True": ("the nodes are selected and claimed", GOOD),
        "False": ("the nodes are not claimed yet", BUSY),
    },
    ConditionType.RECONCILING: {
        "True": ("in progress, or waiting for what the reason names", BUSY),
        "False": ("not in progress", FAINT),
    },
    ConditionType.STALLED: {
        "True": ("stuck: somebody has to act", BAD),
        "False": ("not stuck", FAINT),
    },
    ConditionType.READY: {
        "True": ("what was asked for is done", GOOD),
        "False": ("what was asked for is not done", BUSY),
    },
    ConditionType.SUCCEEDED: {
        "True": ("the rollout ended well", GOOD),
        "False": ("the rollout ended without success", BAD),
        "Unknown": ("the rollout has not ended", FAINT),
    },
    ConditionType.DEGRADED: {
        "True": ("nodes failed", BAD),
        "False": ("no node failed", FAINT),
    },
    ConditionType.IMPEDED: {
        "True": ("writes are refused, or agents cannot run", BAD),
        "False": ("nothing is in the way any more", FAINT),
    },
    ConditionType.READINESS_GUARDED: {
        "True": ("pods stay Ready until their new kubelet has probed them", GOOD),
        "False": ("pods may be reported unready for a moment", FAINT),
        "Unknown": ("not known yet", FAINT),
    },
    ConditionType.ZERO_RESTART: {
        "True": ("every container is the instance it was before", GOOD),
        "False": ("containers were restarted", BAD),
        "Unknown": ("no node has been verified yet", FAINT),
    },
}


def meaning(condition: Condition) -> tuple[str, str]:
    """Return what a condition means, and its colour; for one of a newer version, its own message."""
    if condition.reason == Reason.STATIC_PODS_RECREATED:
        return condition.message, BUSY
    return MEANINGS.get(condition.type, {}).get(condition.status, (condition.message, ""))


def is_bad(condition: Condition) -> bool:
    """Report whether a condition says that something is wrong."""
    return meaning(condition)[1] == BAD
