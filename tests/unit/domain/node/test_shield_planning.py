"""How a run's shield is planned: where its socket can take the runtime's place, and what it needs to know."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.api.values import Digest
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelethash import hash_container
from nodeupgrade.node.checks import registry
from nodeupgrade.node.plan.manifest_uid import pin
from nodeupgrade.node.plan.plan import ShieldPlan, StaticSource, StopHook
from nodeupgrade.node.runtimes.containerd.next_start import CONTAINERD
from nodeupgrade.node.runtimes.description import RuntimeInfo
from nodeupgrade.node.runtimes.inventory import ContainerState
from tests.unit.domain.node.checks.sound import OLD, SPEC, facts, instance, inventory, pod, socket
from tests.unit.domain.node.test_planning import MANIFEST, READ, STATIC, UID, plan, planned, static_facts

SOCKET = "/run/containerd/containerd.sock"
STOP = ("/bin/sh", "-c", "sleep 5")
LONGEST = f"/run/{'x' * (107 - len('/run//nodeupgrade-runtime.sock'))}/containerd.sock"

OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {
    "another runtime": ({"kind": replace(CONTAINERD, exchangeable_socket=False)}, "nobody has tried"),
    "no socket": ({"path": None}, f"{SOCKET} is not a socket"),
    "links in a circle": ({"path": None, "unknown": "cannot look for it"}, "cannot look for it"),
    "a bind mount": ({"mounted": True}, f"{SOCKET} is a mount point"),
    "a directory that stays as it is": ({"fixed": True}, "nothing in /run/containerd can be changed"),
    "a long path": ({"path": LONGEST.replace("/run/", "/run/x")}, "has 108 bytes"),
    "a long path of other letters": ({"path": LONGEST.replace("xx", "é")}, ""),
    "a path as long as possible": ({"path": LONGEST}, ""),
    "letters of two bytes": ({"path": LONGEST.replace("x", "é")}, "and the path of a socket at most 107"),
}


@pytest.mark.parametrize(("found", "told"), OBSTACLES.values(), ids=OBSTACLES.keys())
def test_what_is_in_the_way_is_a_warning_or_a_refusal_as_the_policy_says(found: dict[str, Any], told: str) -> None:
    seen = facts(socket=socket(**found))
    required, off = (facts(socket=seen.socket, shield=policy) for policy in (ShieldPolicy.REQUIRE, ShieldPolicy.OFF))

    warned = [each for each in registry.warnings(seen) if each.reason is Reason.SHIELD_UNAVAILABLE]
    refused = registry.preflight(required)

    assert [told in each.detail for each in (*warned, *refused)] == ([True, True] if told else [])
    assert not any(each.forbids for each in warned)
    assert all(each.forbids and each.reason is Reason.SHIELD_UNAVAILABLE for each in refused)
    assert (*registry.preflight(off), *registry.warnings(off), *registry.warnings(required)) == ()
    assert (planned(plan(seen)).shield is None) == bool(told)
    assert planned(plan(off)).shield is None


def test_nothing_is_said_of_the_socket_of_another_runtime() -> None:
    seen = facts(runtime=RuntimeInfo(name="cri-o", version="1", cri_versions=("v1",)), socket=socket(mounted=True))

    assert registry.warnings(seen) == ()


@pytest.mark.parametrize("policy", [ShieldPolicy.AUTO, ShieldPolicy.REQUIRE])
def test_the_shield_takes_the_place_of_the_socket_itself(policy: ShieldPolicy) -> None:
    found = socket(endpoint="/var/run/containerd.sock", path="/run/k3s/containerd.sock")

    shield = planned(plan(facts(socket=found, shield=policy))).shield

    assert shield == ShieldPlan(socket="/run/k3s/containerd.sock", required=policy is ShieldPolicy.REQUIRE)


def test_it_steps_aside_where_the_runtime_would_not_start_otherwise() -> None:
    for needed in (False, True):
        shield = planned(plan(facts(socket=socket(kind=replace(CONTAINERD, needs_free_path=needed))))).shield
        assert shield is not None
        assert shield.steps_aside is needed


def executing(command: tuple[str, ...]) -> dict[str, Any]:
    return {"exec": {"command": list(command)}}


HOOKS: dict[str, tuple[dict[str, Any], bool]] = {
    "a hook": ({}, True),
    "a hook over HTTP": ({"lifecycle": {"preStop": {"httpGet": {"port": 80}}}}, False),
    "no hook": ({"lifecycle": {"postStart": executing(STOP)}}, False),
    "a hook for both ends": ({"lifecycle": {"preStop": executing(STOP), "postStart": executing(STOP)}}, False),
    "another hook at the beginning": (
        {"lifecycle": {"preStop": executing(STOP), "postStart": executing(STOP[:1])}},
        True,
    ),
    "a probe that does the same": ({"livenessProbe": executing(STOP)}, False),
    "a probe that does the same when it is ready": ({"readinessProbe": executing(STOP)}, False),
    "a probe that does the same at first": ({"startupProbe": executing(STOP)}, False),
    "a probe that may do the same": ({"livenessProbe": executing((*STOP[:2], "sleep $(SECONDS)"))}, False),
    "a probe with a variable that does something else": ({"livenessProbe": executing(("cat", "-c", "$(X)"))}, True),
    "another probe": ({"livenessProbe": executing(STOP[:2]), "readinessProbe": {"tcpSocket": {"port": 1}}}, True),
}


@pytest.mark.parametrize(("fields", "known"), HOOKS.values(), ids=HOOKS.keys())
def test_a_stop_hook_is_a_command_that_serves_no_other_purpose(fields: dict[str, Any], known: bool) -> None:
    spec = {**SPEC, "lifecycle": {"preStop": executing(STOP)}, **fields}
    ended = instance("1", name="ended", state=ContainerState.EXITED)
    held = inventory(instance(hash_container(spec, OLD)), ended)
    body = pod(containers=[spec, {**spec, "name": "ended"}])

    shield = planned(plan(facts(inventory=held, pods=(parse_pod(body),)))).shield

    assert shield is not None
    assert shield.hooks == ((StopHook(container=instance("1").id, command=STOP),) if known else ())


def digest(data: bytes) -> Digest:
    return Digest(sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("target", "digests"),
    [("v1.33.13", (digest(MANIFEST), digest(pin(MANIFEST, UID)))), ("v1.30.14", (digest(MANIFEST),))],
    ids=["pinned", "as found"],
)
def test_a_static_pod_is_known_by_its_manifest(target: str, digests: tuple[Digest, ...]) -> None:
    seen = static_facts(mirror=READ, old="v1.30.13", target=target)

    shield = planned(plan(seen, {"/m/etcd.yaml": MANIFEST})).shield

    assert shield is not None
    assert shield.static == (StaticSource(pod=STATIC.uid, path="/m/etcd.yaml", digests=digests),)
