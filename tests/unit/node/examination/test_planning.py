"""Tests how a plan is made from the facts of a node, including the plan of its shield."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.api.values import Digest, PodRef, PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.flags import Arguments
from nodeupgrade.kubelet.layout import DEVICE_STATE, KubeletLayout, read_layout
from nodeupgrade.kubelethash import KubeletVersion, default_static_container, hash_container, hash_manifest_container
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.examination.planning import examine
from nodeupgrade.node.host.systemd.drop_ins import is_own_drop_in
from nodeupgrade.node.plan.manifest_uid import digests_of, pin
from nodeupgrade.node.plan.plan import RunPlan, ShieldPlan, StopHook
from nodeupgrade.node.runtimes.containerd.containerd import CONTAINERD
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from tests.builders.sound import (
    NEW,
    OLD,
    SPEC,
    facts,
    instance,
    inventory,
    kubelet,
    pod,
    readiness,
    request,
    sandbox,
    socket,
    unit,
)

REQUEST = request()
UID = "0123456789abcdef0123456789abcdef"
STATIC = PodRef(namespace="default", name="etcd-node-a", uid=PodUid(UID))
MANIFEST = b"""\
kind: Pod
metadata:
  name: etcd
spec:
  containers:
  - name: etcd
    image: etcd:3
    command: []
    startupProbe: {tcpSocket: {port: 2379}}
"""
WRITTEN: dict[str, Any] = {
    "name": "etcd",
    "image": "etcd:3",
    "command": [],
    "startupProbe": {"tcpSocket": {"port": 2379}},
}
READ = default_static_container(WRITTEN, host_network=False)


def plan(
    given_facts: NodeFacts, manifests: dict[str, bytes] | None = None, layout: KubeletLayout | None = None
) -> RunPlan | tuple[Finding, ...]:
    found = examine(REQUEST, given_facts, layout or read_layout(()), manifests or {})
    return found.plan or found.refusals


def planned(found: RunPlan | tuple[Finding, ...]) -> RunPlan:
    assert isinstance(found, RunPlan), [str(finding) for finding in found]
    return found


def reasons(found: RunPlan | tuple[Finding, ...]) -> list[Reason]:
    assert not isinstance(found, RunPlan)
    return [finding.reason for finding in found]


def test_a_sound_node_gets_a_plan_that_says_everything() -> None:
    found = planned(plan(facts(), layout=read_layout(("--root-dir=/data", "--healthz-port=9"))))

    (container,) = found.containers
    assert (container.before.container, container.after.container) == (
        hash_container(SPEC, OLD), hash_container(SPEC, NEW),
    )  # fmt: skip
    assert (found.from_version, found.to_version, found.runtime) == (str(OLD), str(NEW), "containerd 1.7.2")
    assert found.healthz_url == "http://127.0.0.1:9/healthz"
    assert {"/data/cpu_manager_state", f"/var/lib/kubelet/{DEVICE_STATE}"} <= {*found.state_files}
    assert (found.swap.path, found.swap.staged, found.swap.backup) == (
        "/usr/bin/kubelet",
        REQUEST.staged,
        REQUEST.backup,
    )
    assert (found.swap.before, found.swap.after) == ("0" * 64, "1" * 64)
    assert (found.swap.arguments, found.pins, found.limits) == (None, (), REQUEST.limits)


@pytest.mark.parametrize("how", ["removed", "added"])
def test_flags_that_go_or_come_become_a_drop_in(how: str) -> None:
    arguments = replace(Arguments(words=("--v=2",)), **{how: ("--container-runtime=remote",)})

    override = planned(plan(facts(kubelet=kubelet(arguments=arguments)))).swap.arguments

    assert override is not None
    assert override.path == "/etc/systemd/system/kubelet.service.d/90-nodeupgrade.conf"
    assert override.content.endswith(b"ExecStart=/usr/bin/kubelet --v=2\n")


@pytest.mark.parametrize(
    ("others", "name"),
    [
        ((), "90-nodeupgrade.conf"),
        (("10-kubeadm.conf", "90-nodeupgrade.conf"), "90-nodeupgrade.conf"),
        (("99-local.conf", "10-kubeadm.conf"), "99-local.nodeupgrade.conf"),
        (("99-local.conf", "99-local.nodeupgrade.conf", "90-nodeupgrade.conf"), "99-local.nodeupgrade.conf"),
        (("10-kubeadm.conf", "99-local.nodeupgrade.conf"), "99-local.nodeupgrade.conf"),
        (("95-site.conf", "99-local.nodeupgrade.conf"), "99-local.nodeupgrade.conf"),
        (("local.conf", "zz-nodeupgrade-fence.conf"), "local.nodeupgrade.conf"),
        (("99-local.conf", "99-local.x.conf"), "99-local.x.nodeupgrade.conf"),
    ],
)
def test_the_drop_in_applies_after_those_of_others(others: tuple[str, ...], name: str) -> None:
    arguments = Arguments(words=("--v=2",), removed=("--container-runtime=remote",))
    drop_ins = tuple(f"/usr/lib/systemd/system/kubelet.service.d/{other}" for other in others)
    changed = unit("kubelet.service", program="/usr/bin/kubelet", drop_ins=drop_ins)

    override = planned(plan(facts(kubelet=kubelet(arguments=arguments, unit=changed)))).swap.arguments

    assert override is not None
    assert override.path == f"/etc/systemd/system/kubelet.service.d/{name}"
    assert name == max([name, *(other for other in others if not is_own_drop_in(other))])


def test_the_drop_in_names_the_kubelet_as_its_unit_does() -> None:
    arguments = Arguments(words=("--v=2",), removed=("--container-runtime=remote",))
    linked = unit("kubelet.service", program="/usr/local/bin/kubelet")

    override = planned(plan(facts(kubelet=kubelet(arguments=arguments, unit=linked)))).swap.arguments

    assert override is not None
    assert override.content.endswith(b"ExecStart=/usr/local/bin/kubelet --v=2\n")


DEFECTS: list[dict[str, Any]] = [
    {"inventory": inventory(instance("bad"))},
    {"inventory": inventory(instance(hash_container(SPEC, OLD), name="stranger"))},
    {"promised": Digest("2" * 64)},
    {"state_free_bytes": 0},
    {"target": KubeletVersion.parse("v1.99.0")},
    {"kubelet": kubelet(current=None)},
]


@given(st.lists(st.sampled_from(DEFECTS), max_size=3))
def test_nothing_is_planned_when_anything_is_violated(defects: list[dict[str, Any]]) -> None:
    fields = {key: value for defect in defects for key, value in defect.items()}

    assert isinstance(plan(facts(**fields)), RunPlan) == (not fields)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    wrong = facts(promised=Digest("2" * 64), state_free_bytes=0, inventory=inventory(instance("bad")))

    assert reasons(plan(wrong)) == [
        Reason.DIGEST_MISMATCH, Reason.INSUFFICIENT_SPACE, Reason.STORED_HASH_NOT_REPRODUCED,
    ]  # fmt: skip


@pytest.mark.parametrize("fields", [{"before": None}, {"after": None}])
def test_a_program_that_vanishes_is_never_a_refusal_without_a_reason(fields: dict[str, Any]) -> None:
    assert reasons(plan(facts(promised=None, kubelet=kubelet(**fields)))) == [Reason.ARTIFACT_UNAVAILABLE]


def test_health_that_cannot_be_asked_forbids_the_run() -> None:
    silent = read_layout(("--cgroup-driver=systemd", "--healthz-port=0"))

    assert reasons(plan(facts(readiness=readiness(layout=silent)), layout=silent)) == [
        Reason.UNSUPPORTED_SERVICE_MANAGER
    ]


@pytest.mark.parametrize(("disk", "admitted"), [("ssd", True), ("hdd", False)])
def test_a_pod_that_would_not_be_admitted_again_forbids_the_run(disk: str, admitted: bool) -> None:
    found = plan(facts(pods=(parse_pod(pod(nodeSelector={"disk": disk})),)))

    assert isinstance(found, RunPlan) == admitted
    if not admitted:
        assert reasons(found) == [Reason.NODE_AFFINITY_NOT_MET]


def static_facts(*, mirror: dict[str, Any] | None, old: str, target: str, value: str | None = None) -> NodeFacts:
    """A node with one static pod, whose stored hash is that of its manifest."""
    current, goal = KubeletVersion.parse(old), KubeletVersion.parse(target)
    held = instance(value or hash_manifest_container(READ, current), name="etcd", ref=STATIC)
    shown = sandbox(STATIC, config_source="file", static_hash=UID)
    body = None if mirror is None else {
        "metadata": {
            "namespace": "default", "name": STATIC.name, "uid": "of the mirror",
            "annotations": {"kubernetes.io/config.mirror": UID, "kubernetes.io/config.hash": UID},
        },
        "spec": {"containers": [mirror]},
    }  # fmt: skip
    return facts(
        inventory=inventory(held, sandboxes=(shown,)),
        pods=() if body is None else (parse_pod(body),),
        target=goal,
        kubelet=kubelet(current=current, staged_version=target),
    )


@pytest.mark.parametrize("mirror", [None, {"name": "etcd", "image": "etcd:3"}, READ], ids=["none", "poorer", "same"])
@pytest.mark.parametrize(("old", "target"), [("v1.15.0", "v1.17.17"), ("v1.30.14", "v1.33.13")])
def test_the_manifest_counts_and_not_what_its_mirror_lacks(
    mirror: dict[str, Any] | None, old: str, target: str
) -> None:
    """Kubelet 1.15 knows no startupProbe: its mirror has none, but 1.17 reads it from the manifest and hashes it.

    And to 1.15 an empty list in a manifest is not the same as none, whereas no mirror ever has one.
    """
    found = planned(plan(static_facts(mirror=mirror, old=old, target=target), {"/m/etcd.yaml": MANIFEST}))

    assert [c.after.container for c in found.containers] == [hash_manifest_container(READ, target)]
    assert [(p.path, p.content) for p in found.pins] == [("/m/etcd.yaml", pin(MANIFEST, UID))]


def test_within_a_minor_a_static_pod_needs_neither_pin_nor_manifest() -> None:
    same = static_facts(mirror=READ, old="v1.30.13", target="v1.30.14")

    assert planned(plan(same)).pins == ()
    assert planned(plan(same, {"/m/etcd.yaml": MANIFEST})).pins == ()


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ((), True),
        (("--feature-gates=InPlacePodVerticalScaling=true",), False),
        (("--feature-gates=AllAlpha=true",), False),
        (("--feature-gates=AllAlpha=true,InPlacePodVerticalScaling=false",), True),
    ],
)
def test_a_gate_that_adds_a_default_is_minded(words: tuple[str, ...], refused: bool) -> None:
    """Kubelets 1.27 to 1.30 with InPlacePodVerticalScaling add a resize policy to a static pod before they hash it."""
    limited = MANIFEST + b"    resources: {limits: {memory: 1Gi}}\n"
    written = {**WRITTEN, "resources": {"limits": {"memory": "1Gi"}}}
    stored = hash_manifest_container(
        default_static_container(written, host_network=False, in_place_resize=True), "1.30"
    )
    found = plan(
        static_facts(mirror=None, old="v1.30.14", target="v1.33.13", value=stored),
        {"/m/etcd.yaml": limited},
        read_layout(words),
    )
    assert isinstance(found, RunPlan) is not refused
    if refused:
        assert reasons(found) == [Reason.STORED_HASH_NOT_REPRODUCED]


def test_across_minors_a_static_pod_without_manifest_forbids_the_run() -> None:
    found = plan(static_facts(mirror=READ, old="v1.30.14", target="v1.33.13"))

    assert reasons(found) == [Reason.STATIC_POD_NOT_EDITABLE]


def test_a_static_pod_must_be_admitted_again_as_well() -> None:
    chosen = MANIFEST.replace(b"spec:\n", b"spec:\n  nodeSelector: {disk: hdd}\n")

    found = plan(static_facts(mirror=READ, old="v1.30.14", target="v1.33.13"), {"/m/etcd.yaml": chosen})

    assert reasons(found) == [Reason.NODE_AFFINITY_NOT_MET]


def test_a_manifest_that_was_edited_since_does_not_reproduce_the_hash() -> None:
    found = plan(
        static_facts(mirror=READ, old="v1.30.14", target="v1.33.13"),
        {"/m/etcd.yaml": MANIFEST.replace(b"etcd:3", b"etcd:4")},
    )

    assert reasons(found) == [Reason.STORED_HASH_NOT_REPRODUCED]


def test_an_empty_node_is_upgraded_too() -> None:
    found = planned(plan(replace(facts(), inventory=Inventory(), pods=())))

    assert found.containers == ()


SOCKET = "/run/containerd/containerd.sock"
STOP = ("/bin/sh", "-c", "sleep 5")
LONGEST = f"/run/{'x' * (107 - len('/run//nodeupgrade-runtime.sock'))}/containerd.sock"

OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {
    "another runtime": ({"kind": replace(CONTAINERD, exchangeable_socket=False)}, "it is unproven"),
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


@pytest.mark.parametrize(
    ("target", "written"),
    [("v1.33.13", (MANIFEST, pin(MANIFEST, UID))), ("v1.30.14", (MANIFEST,))],
    ids=["pinned", "as found"],
)
def test_a_static_pod_is_known_by_its_manifest_and_by_what_that_describes(
    target: str, written: tuple[bytes, ...]
) -> None:
    seen = static_facts(mirror=READ, old="v1.30.13", target=target)

    owned = planned(plan(seen, {"/m/etcd.yaml": MANIFEST})).owned

    (source,) = owned.manifests
    again, edited = MANIFEST + b"# written again\n", MANIFEST.replace(b"etcd", b"other")
    assert (source.pod, source.path) == (STATIC.uid, "/m/etcd.yaml")
    assert {sha256(data).hexdigest() for data in written} < {*source.digests}
    assert not {*source.digests}.isdisjoint(digests_of(again))
    assert {*source.digests}.isdisjoint(digests_of(edited))
