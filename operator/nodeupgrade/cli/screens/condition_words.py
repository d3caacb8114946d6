"""What the conditions of a NodeUpgrade mean, by status, with the colour to say it in."""

from nodeupgrade.cli.screens.words import BAD, BUSY, FAINT, GOOD
from nodeupgrade.domain.rollout.report import conditions

MEANINGS: dict[str, dict[str, tuple[str, str]]] = {
    conditions.ACCEPTED: {
        "True": ("the spec is valid", GOOD),
        "False": ("the spec is not accepted", BAD),
    },
    conditions.PLANNED: {
        "True": ("the nodes are selected and claimed", GOOD),
        "False": ("the nodes are not claimed yet", BUSY),
    },
    conditions.RECONCILING: {
        "True": ("in progress, or waiting for what the reason names", BUSY),
        "False": ("not in progress", FAINT),
    },
    conditions.STALLED: {
        "True": ("stuck: somebody has to act", BAD),
        "False": ("not stuck", FAINT),
    },
    conditions.READY: {
        "True": ("what was asked for is done", GOOD),
        "False": ("what was asked for is not done", BUSY),
    },
    conditions.SUCCEEDED: {
        "True": ("the rollout ended well", GOOD),
        "False": ("the rollout ended without success", BAD),
        "Unknown": ("the rollout has not ended", FAINT),
    },
    conditions.DEGRADED: {
        "True": ("nodes failed", BAD),
        "False": ("no node failed", FAINT),
    },
    conditions.GUARDED: {
        "True": ("pods stay Ready until their new kubelet has probed them", GOOD),
        "False": ("pods may be reported unready for a moment", FAINT),
        "Unknown": ("not known yet", FAINT),
    },
    conditions.ZERO_RESTART: {
        "True": ("every container is the instance it was before", GOOD),
        "False": ("containers were restarted", BAD),
        "Unknown": ("no node has been verified yet", FAINT),
    },
}
