"""What the API server says of a pod."""

from typing import Any

Object = dict[str, Any]


def is_mirror(pod: Object) -> bool:
    """Report whether a pod only shows a static one."""
    return "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {})


def is_fresh(pod: Object) -> bool:
    """Report whether a pod runs, and no container of it ever restarted."""
    statuses = pod.get("status", {})
    every = [*statuses.get("initContainerStatuses", ()), *statuses.get("containerStatuses", ())]
    return runs(pod) and "deletionTimestamp" not in pod["metadata"] and not any(s["restartCount"] for s in every)


def runs(pod: Object) -> bool:
    """Report whether a pod runs, with every long-running container ready."""
    statuses = pod.get("status", {}).get("containerStatuses", [])
    settled = [
        status["ready"] or status.get("state", {}).get("terminated", {}).get("exitCode") == 0 for status in statuses
    ]
    return pod["status"].get("phase") == "Running" and bool(settled) and all(settled)
