"""Switches that put defects back into the fleet's code, or take one protection away; see ``defects``."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import Slot
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import NodeAction, Wait
from nodeupgrade.fleet.controllers import node_controller
from nodeupgrade.fleet.controllers.leftover_tasks import LeftoverTasks
from nodeupgrade.fleet.decide import candidate, flight, gates, membership
from nodeupgrade.fleet.decide import holder as holders
from nodeupgrade.fleet.decide.holder import Holder, holder
from nodeupgrade.fleet.decide.in_flight import InFlight
from nodeupgrade.fleet.decide.membership import Unassigned
from nodeupgrade.fleet.decide.node_state import NodeState
from nodeupgrade.fleet.snapshot import FleetSnapshot, KnownNode
from tests.model import adapter, steps

Patch = pytest.MonkeyPatch


def h1(patch: Patch) -> None:
    """The wave of a slot is worked out anew from claim and labels."""
    original = membership._unassigned

    def derived(upgrade: Upgrade, spec: UpgradeSpec, node: KnownNode, slot: Slot | None) -> Unassigned:
        del slot
        return original(upgrade, spec, node, None)

    patch.setattr(membership, "_unassigned", derived)


def h2(patch: Patch) -> None:
    """Pods are read only after the cordon, and a node is turned back one write at a time."""
    needs, begin, turn = flight.needs_pods, flight._begin, flight._turn_back

    def needs_pods(fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
        node = fleet.nodes.get(name)
        return needs(fleet, name, now) and (node is None or node.unschedulable)

    def cordon_first(fleet: FleetSnapshot, it: InFlight, node: NodeView, task: Task) -> tuple[NodeAction, ...]:
        actions = begin(fleet, it, node, task)
        unread = isinstance(actions[0], Wait) and it.pods is None and not node.unschedulable
        return (flight._cordon(it, node, "it is cordoned before its pods are read"),) if unread else actions

    def turn_back(it: InFlight, node: NodeView, obstacle: Finding) -> tuple[NodeAction, ...]:
        return turn(it, node, obstacle)[:1]

    patch.setattr(node_controller, "needs_pods", needs_pods)
    patch.setattr(flight, "_begin", cordon_first)
    patch.setattr(flight, "_turn_back", turn_back)


def h3(patch: Patch) -> None:
    """The task of a rollout that is gone holds its node as long as it is open, and nobody releases it."""

    async def never(_self: LeftoverTasks, _name: NodeName) -> None:
        pass

    patch.setattr(holders, "is_over", lambda task: not task.open)
    patch.setattr(LeftoverTasks, "release", never)


def m1(patch: Patch) -> None:
    """Neither slots and cordons of other rollouts hold a node, nor their tasks once the Node has registered anew."""

    def blind(fleet: FleetSnapshot, name: NodeName) -> Holder | None:
        node, task = fleet.nodes.get(name), fleet.tasks.get(name)
        known = {} if task is None or (node is not None and task.spec.node_uid != node.uid) else {name: task}
        return holder(replace(fleet, rivals=(), tasks=known), name)

    _answer(patch, blind)


def m2(patch: Patch) -> None:
    """A claim that was given back holds its node as long as its rollout is active."""

    def strict(fleet: FleetSnapshot, name: NodeName) -> Holder | None:
        task: Task | None = fleet.tasks.get(name)
        if task is not None and task.released and task.spec.upgrade_ref.uid in fleet.active_upgrades:
            ref = task.spec.upgrade_ref
            return None if ref.uid == fleet.upgrade.uid else Holder(upgrade=ref.name)
        return holder(fleet, name)

    _answer(patch, strict)


def m3(patch: Patch) -> None:
    """Neither gates nor the selection are asked again before a node that has a slot is touched."""
    asked = SimpleNamespace(GATES=(), PRECHECK_GATES=(), of_slot=gates.of_slot, closed=gates.closed)
    patch.setattr(flight, "gates", asked)
    patch.setattr(flight, "_is_selected", lambda _candidate: True)


def begun_by_a_plan(patch: Patch) -> None:
    """A node that is examined begins its wave."""
    patch.setattr(NodeState, "upgrade_begun", property(lambda state: state.begun))


def any_slot(patch: Patch) -> None:
    """A slot is used for what the action asks for, whatever it was taken for."""
    patch.setattr(InFlight, "kind", property(lambda flight: flight.upgrade.spec.action.run_kind))


def no_versions(patch: Patch) -> None:
    """No write names the version that it relies on."""
    patch.setattr(steps, "is_void", lambda call, write: call.get("names") == "object" and write.after is None)


def no_mark_of_tasks(patch: Patch) -> None:
    """The slot of a node that was not started is freed, and its task was not written."""
    patch.setattr(flight, "_marked", lambda _flight, due: due)


def no_mark_of_statuses(patch: Patch) -> None:
    """A leader finds every rollout as if it had marked it already."""
    read = adapter.Sharing.read_upgrade

    def marked(source: adapter.Sharing, body: Json) -> Upgrade:
        upgrade = read(source, body)
        return replace(upgrade, status=replace(upgrade.status, leader=adapter.TERM))

    patch.setattr(adapter.Sharing, "read_upgrade", marked)


def _answer(patch: Patch, answer: object) -> None:
    """Let all who ask who holds a node get this answer."""
    patch.setattr(candidate, "holder", answer)
