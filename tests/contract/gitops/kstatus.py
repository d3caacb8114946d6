"""What kstatus and ``kubectl wait`` make of an object, restated for the fast tests.

Both are checked against the real programs on every recorded object (``test_real_judges.py``).
"""

from nodeupgrade.api.json import Json

FAILED, IN_PROGRESS, CURRENT, TERMINATING = "Failed", "InProgress", "Current", "Terminating"


def kstatus(body: Json) -> str:
    """Judge a custom resource as sigs.k8s.io/cli-utils does (v0.37, pkg/kstatus/status).

    In this order: it is being deleted; the controller has not seen its generation; the first of Reconciling and
    Stalled that is True; Ready; and an object that says nothing at all is Current.
    """
    metadata, status = body["metadata"], body.get("status", {})
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    if "generation" in metadata and status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return IN_PROGRESS
    conditions = status.get("conditions", [])
    for condition in conditions:
        if condition["status"] == "True" and condition["type"] in {"Reconciling", "Stalled"}:
            return IN_PROGRESS if condition["type"] == "Reconciling" else FAILED
    ready = [condition["status"] for condition in conditions if condition["type"] == "Ready"]
    if not ready:
        return CURRENT
    return CURRENT if ready[0] == "True" else IN_PROGRESS


def waited_for(body: Json, kind: str, wanted: str = "True") -> bool:
    """Whether ``kubectl wait --for=condition=KIND`` returns; it ignores conditions of an older generation."""
    metadata = body["metadata"]
    return any(
        condition["type"] == kind
        and condition["status"] == wanted
        and condition.get("observedGeneration", metadata["generation"]) >= metadata["generation"]
        for condition in body.get("status", {}).get("conditions", [])
    )
