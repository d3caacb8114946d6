"""Builds Pods as a kubelet reports them."""

from nodeupgrade.api.json import Json

RUNS: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: Json = {"terminated": {"exitCode": 1}}


def pod(ready: str, web: str = "web-1", mesh: str = "mesh-1", state: Json = RUNS, **marks: str) -> Json:
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": "1", **marks},
        "spec": {"containers": [{"name": "web", "readinessProbe": {"exec": {}}}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "web", "containerID": web, "state": state}],
            "initContainerStatuses": [
                {"name": "setup", "containerID": "setup-1", "state": ENDED},
                {"name": "mesh", "containerID": mesh, "state": RUNS},
            ],
        },
    }


READY, UNREADY = pod("True"), pod("False")
DELETED = pod("False", deletionTimestamp="2026-01-01T00:00:00Z")


UNPROBED = {**READY, "spec": {"containers": [{"name": "web", "livenessProbe": {"exec": {}}}]}}
