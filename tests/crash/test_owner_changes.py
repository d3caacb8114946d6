"""The executor dies at every effect of a run during which an owner sets an image, or adds a manifest."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodeupgrade.api.task.status import OwnedChange, OwnerChange
from nodeupgrade.cluster.owner_changes import Evidence, seen_in
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.node.journal.journal import Outcome, parse
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.plan.hash_rewriting import newcomers
from nodeupgrade.node.plan.manifest_uid import pin
from nodeupgrade.node.plan.plan import RunPlan
from tests.crash.harness import World, crashing, recorded, world
from tests.crash.states import Strike, single_strikes
from tests.doubles.node import manifest, pod_json
from tests.doubles.node.containers.pods import MANIFESTS
from tests.enumeration import tried

IMAGE = OwnedChange(name="default/web/nginx", change=OwnerChange.IMAGE_CHANGED)


def wishing(*, turns_back: bool) -> World:
    """A world in which an owner sets an image while no kubelet runs, and an agent that sees it."""
    it = world(small=True, turns_back=turns_back)
    node, seen = it.node, Evidence()
    [container] = pod_json("web", "nginx")["spec"]["containers"]
    web = parse_pod(pod_json("web", "nginx") | {"spec": {"containers": [{**container, "image": "nginx:2"}]}})

    def owners() -> Evidence:
        nonlocal seen
        seen = seen_in(it.plan.owned, node.kubelet.pods, before=seen).and_before(seen)
        return seen

    def sets() -> None:
        node.kubelet.pods = [web if pod.ref == web.ref else pod for pod in node.kubelet.pods]

    node.ports = replace(node.ports, owner_changes=owners, newcomers=lambda: newcomers(it.plan, node.kubelet.pods))
    node.calls.before("runtime.rewrite", sets)
    return it


def deaths(it: World) -> Iterator[Strike]:
    """Every death of the executor; after a reboot no container is the same."""
    return (strike for strike in single_strikes(recorded(it)) if not strike.reboot)


def wrong_with(after: World) -> list[str]:
    report, now = after.report, after.node.inventory()
    assert report is not None
    if IMAGE not in report.owner_changes and report.outcome is Outcome.UPGRADED:
        return [f"it is not named: {report}"]
    begun = [c.name for c in now.containers].count("nginx")
    others = {c.id for c in after.plan.baseline.running() if c.name != "nginx"} - {c.id for c in now.running()}
    found = [f"restarted: {report.listed}"] if report.restarted else []
    found += [f"begun {begun} times"] if begun != (1 if IMAGE not in report.owner_changes else 2) else []
    return found + ([f"ended: {others}"] if others else [])


@pytest.mark.parametrize("turns_back", [False, True], ids=["forward", "back"])
def test_what_an_owner_sets_is_set_once_wherever_the_executor_dies(turns_back: bool) -> None:
    wrong = {}
    for strike in tried(deaths(wishing(turns_back=turns_back))):
        after = wishing(turns_back=turns_back).run(crashing(strike))
        if found := wrong_with(after):
            wrong[f"{strike}, {after.effects[strike.number]}"] = found

    assert wrong == {}


PROXY, ADDED = f"{MANIFESTS}/proxy.yaml", manifest("proxy", "proxy")


def adding(*, turns_back: bool) -> World:
    """A world in which an owner adds a manifest for which the old kubelet still has time."""
    it = world(small=True, turns_back=turns_back, changes=True)
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.disk.update({PROXY: ADDED}))
    it.node.calls.durations["services.mask kubelet.service"] = 2.0
    return it


def wrong_with_manifest(after: World) -> list[str]:
    assert after.report is not None
    now, there = after.node.inventory(), after.node.disk.get(PROXY)
    uid = next((s.pod.uid for s in now.sandboxes if s.pod.name.startswith("proxy-")), None)
    pinned = pin(ADDED, uid) if uid else ADDED
    found = [f"restarted: {after.report.listed}"] if after.report.restarted else []
    found += [f"begun {n} times"] if (n := [c.name for c in now.containers].count("proxy")) > 1 else []
    upgraded = after.report.outcome is Outcome.UPGRADED
    return found + (["the manifest is wrong"] if there not in {None, pinned if upgraded else ADDED} else [])


@pytest.mark.parametrize("turns_back", [False, True], ids=["forward", "back"])
def test_a_manifest_that_is_added_is_pinned_or_as_it_was_wherever_the_executor_dies(turns_back: bool) -> None:
    wrong, taken_in = {}, 0
    for strike in tried(deaths(adding(turns_back=turns_back))):
        after = adding(turns_back=turns_back).run(crashing(strike))
        taken_in += any(s.pod.name.startswith("proxy-") for s in plan_now(after).baseline.sandboxes)
        if found := wrong_with_manifest(after):
            wrong[f"{strike}, {after.effects[strike.number]}"] = found

    assert wrong == {}
    assert taken_in


def plan_now(after: World) -> RunPlan:
    return plan_in_effect(after.plan, parse(after.node.journal.data)[0])
