"""Records what an operator writes in a rollout, to be continued by another version of it.

To record another version, run this module in a checkout of that version:
``PYTHONPATH=operator:. python PATH/TO/skew_recording.py > tests/golden/operator-skew.json``
"""

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import Any

from nodeupgrade.api.json import Json, timestamp
from tests.doubles.kube import InMemoryKube, Key
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

PARTS = {"node-1": Part.ROLL_BACK}
SPEC: Json = {"strategy": {"maxConcurrent": 2, "failureThreshold": 3}}
NODES = 3


class Recording(InMemoryKube):
    """Keeps every write, whoever made it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.writes: list[Json] = []

    def _store(self, key: Key, body: Json, verb: str) -> Json:
        stored = super()._store(key, body, verb)
        self._record(key, stored)
        return stored

    def _remove(self, key: Key, verb: str) -> None:
        super()._remove(key, verb)
        self._record(key, None)

    def _record(self, key: Key, body: Json | None) -> None:
        self.writes.append({"at": timestamp(self.clock()), "key": list(key), "body": body})


async def record() -> Json:
    """Return every write of a rollout with its moment, and the end."""
    scene = Scene(parts=dict(PARTS), kube_type=Recording)
    for number in range(NODES):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.install_guard()
    await scene.apply(**SPEC)
    kube: Any = scene.kube
    staged = len(kube.writes)
    await scene.finish()
    return {"staged": staged, "writes": kube.writes, "end": comparable(await scene.end_state())}


def comparable(state: Json) -> Json:
    """An end state as JSON."""
    plain: Json = json.loads(json.dumps(state, default=asdict))
    return plain


def restored(writes: list[Json], kind: type[Scene] = Scene) -> Scene:
    """The cluster as it was after these writes."""
    scene = kind(parts=dict(PARTS), start=datetime.fromisoformat(writes[-1]["at"]))
    for write in writes:
        key = tuple(write["key"])
        if write["body"] is None:
            scene.kube._objects.pop(key, None)
        else:
            scene.kube._objects[key] = write["body"]
    scene.kube._revision = max(int(body["metadata"]["resourceVersion"]) for body in scene.kube._objects.values()) + 1
    return scene


if __name__ == "__main__":
    json.dump(asyncio.run(record()), sys.stdout, indent=None, separators=(",", ":"))
    sys.stdout.write("\n")
