"""The settings that the operator approves when it creates an agent, so that no later edit of the task counts."""

import hashlib
import json

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.spec import TaskSpec


def approval(spec: TaskSpec) -> str:
    """Return a digest of everything in a task that decides what a run does to its node.

    The operator passes it to the agent in its pod, which only the operator can create; others may write the task.
    """
    decisive = [
        *(spec.node_name, spec.run_id, spec.to_version, spec.allow_downgrade, spec.hash_mode.value),
        *spec.hash_also_accepted,
        *map(to_json, (spec.artifact, spec.files, spec.kubelet, spec.preflight, spec.verify)),
    ]
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
