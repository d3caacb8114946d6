"""What the operator has approved when it created an agent, so that nobody can change it in the task afterwards."""

import hashlib
import json

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.spec import TaskSpec


def approval(spec: TaskSpec) -> str:
    """Return a digest of everything in a task that decides what a run does to its node.

    The operator passes it to the agent in its pod, which only the operator can create; the task can be written by
    whoever has the right to.
    """
    decisive = [
        *(spec.node_name, spec.run_id, spec.to_version, spec.allow_downgrade, spec.hash_mode.value),
        *spec.hash_also_accepted,
        *map(to_json, (spec.artifact, spec.files, spec.kubelet, spec.preflight, spec.verify)),
    ]
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
