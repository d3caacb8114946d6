"""The worlds that are searched: which nodes there are, and which NodeUpgrades are applied to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, PODS, UPGRADES
from tests.doubles.kube_fleet import node_object, pod_object
from tests.model.canonical import GHOST, UPGRADE, Key, Object, born, interned, written
from tests.model.state import NO_GHOST, State, make_state
from tests.model.store import Store, done
from tests.scenario.rollout.harness import upgrade_object

QUICK: Json = {
    "verify": {"settle": "10s", "readinessGuard": "Off"},
    "timeouts": {"node": "15m", "podHold": "30m"},
}
"""What all NodeUpgrades of the model have in common."""


@dataclass(frozen=True, slots=True)
class World:
    """A world and its beginning."""

    name: str
    labels: Mapping[str, Mapping[str, str]]  # by node, the labels that it registers with
    specs: Mapping[str, Json]  # by NodeUpgrade, the oldest first
    server: str = "v1.33.13"
    kinds: frozenset[str] = field(default_factory=frozenset)  # the events that may happen; all if empty

    def rank(self, upgrade: str) -> int:
        """Return the place of a NodeUpgrade."""
        return [*self.specs].index(upgrade)

    def start(self) -> State:
        """Return the state in which everything is applied and nothing has been done."""
        store = Store()
        for name, labels in self.labels.items():
            add_node(store, name, labels)
            add_pod(store, f"web-on-{name}", name)
        for name, spec in self.specs.items():
            done(store.create(UPGRADES, upgrade_object(name, **spec)))
        objects = {key: _ancient(key, each, self.rank(key[2]) if key[0] == UPGRADE else 0)
                   for key, each in store.bodies().items()}  # fmt: skip
        return make_state({**objects, GHOST: interned(GHOST, written("ghost", NO_GHOST))}, {})


def _ancient(key: Key, body: Json, rank: int) -> Object:
    metadata = {**body["metadata"], "creationTimestamp": born(rank)}
    return interned(key, written(key[0], {**body, "metadata": metadata}))


def add_node(store: Store, name: str, labels: Mapping[str, str], version: str = "v1.30.14") -> None:
    """Let a node register."""
    body = node_object(name, version)
    body["metadata"] = {**body["metadata"], "labels": {"kubernetes.io/hostname": name, **labels}}
    done(store.create(NODES, body))
    done(store.replace_status(NODES, name, body["status"]))


def add_pod(store: Store, name: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
    """Let a pod run on a node."""
    body = pod_object(name, node)
    body["metadata"] |= {"annotations": dict(annotations)} if annotations else {}
    body["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "2025-06-01T00:00:00Z"}}
    pods = PODS.within("default")
    done(store.create(pods, body))
    done(store.replace_status(pods, name, body["status"]))


WEB = {"pool": "web"}
ONE = World(
    "one",
    labels={"node-0": {**WEB, "canary": "yes"}, "node-1": WEB, "node-2": WEB},
    specs={
        "first-1": {
            **QUICK,
            "strategy": {"failureThreshold": 2},
            "waves": [
                {"name": "canary", "selector": {"matchLabels": {"canary": "yes"}}, "soak": "1h"},
                {"name": "production", "size": "100%", "approval": "Manual"},
            ],
        }
    },
)
PLANNED = World(
    "planned",
    labels=ONE.labels,
    specs={"first-1": {**ONE.specs["first-1"], "action": "Plan", "strategy": {"maxConcurrent": 3}}},
)
TWO = World(
    "two",
    labels={"node-0": WEB, "node-1": WEB},
    specs={
        "first-1": {**QUICK, "nodes": {"names": ["node-0"]}},
        "second-2": {**QUICK, "nodes": {"names": ["node-0", "node-1"]}},
    },
)
SINGLE = World("single", labels={"node-0": WEB}, specs={"first-1": {**QUICK, "nodes": {"names": ["node-0"]}}})
THREE = World(
    "three",
    labels={f"node-{number}": {**WEB, **({"canary": "yes"} if number < 2 else {})} for number in range(6)},
    specs={
        "first-1": {**ONE.specs["first-1"], "strategy": {"maxConcurrent": 2, "failureThreshold": 2}},
        "second-2": {**QUICK, "nodes": {"names": ["node-0", "node-2", "node-4"]}},
        "third-3": {**QUICK, "nodes": {"selector": {"matchLabels": WEB}}, "strategy": {"maxConcurrent": 2,
                    "failureThreshold": 2}},
    },
)  # fmt: skip
WORLDS = {world.name: world for world in (SINGLE, ONE, PLANNED, TWO, THREE)}
