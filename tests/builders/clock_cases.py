"""Builds a Node that shows the difference between two clocks."""

from typing import Any

from tests.builders.surroundings_cases import around

BEAT = "2026-11-21T21:14:37Z"


def node(*stored: tuple[str, str, str], beat: str = BEAT) -> dict[str, Any]:
    entries = [{"manager": manager, "subresource": part, "time": time} for manager, part, time in stored]
    conditions = [{"type": "DiskPressure", "lastHeartbeatTime": "junk"}, {"type": "Ready", "lastHeartbeatTime": beat}]
    return {"metadata": {"name": "node-a", "managedFields": entries}, "status": {"conditions": conditions}}


SLOW = around(node=node(("kubelet", "status", "2026-11-21T21:16:37Z")))
