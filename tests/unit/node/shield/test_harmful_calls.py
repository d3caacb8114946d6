"""Which calls the shield refuses."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import ContainerId, Digest, PodRef, PodUid, SandboxId
from nodeupgrade.cluster.owner_changes import ContainerSpec, Evidence, Planned
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import CompletingPod
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from nodeupgrade.node.shield.harmful_calls import Method, Protected, RuntimeCall, Shielded
from tests.builders.shielded import (
    AGENT,
    AS_FOUND,
    AS_PINNED,
    EDITED,
    HOOK,
    JOB,
    WEB,
    container,
    container_of,
    sandbox_of,
    shielded_plan,
)

USED = 100
OF_CONTAINERS = (Method.STOP_CONTAINER, Method.REMOVE_CONTAINER, Method.UPDATE_CONTAINER_RESOURCES, Method.EXEC_SYNC)
PIDS = {WEB: (10, 20), JOB: (11, 21), AGENT: (12, 22)}
FAILED_AT_FIRST = CompletingPod(pod=JOB.uid, regular=("main",), initial=("c",))


def call_to(method: Method, pod: PodRef) -> RuntimeCall:
    """The call that harms a pod or its container most."""
    match method:
        case Method.RUN_POD_SANDBOX:
            return RuntimeCall(method=method, pod=pod)
        case Method.CREATE_CONTAINER:
            return RuntimeCall(method=method, sandbox=sandbox_of(pod), name="c")
        case Method.STOP_POD_SANDBOX | Method.REMOVE_POD_SANDBOX:
            return RuntimeCall(method=method, sandbox=sandbox_of(pod))
        case Method.UPDATE_CONTAINER_RESOURCES:
            return RuntimeCall(method=method, container=container_of(pod), memory=USED - 1)
        case _:
            return RuntimeCall(method=method, container=container_of(pod), command=HOOK)


def alive(*pids: int) -> Callable[[Process], bool]:
    return lambda process: process.pid in pids


def used(_container: ContainerId) -> int:
    return USED


@pytest.mark.parametrize("method", Method)
def test_every_method_in_every_situation(method: Method) -> None:
    """What is refused depends on who still runs, on whether the pod may complete, and on who is expendable."""
    shielded = Shielded.of(shielded_plan())
    for pod, container_runs, sandbox_runs in product((WEB, JOB, AGENT), (True, False), (True, False)):
        own, pause = PIDS[pod]
        lives = alive(*(own,) * container_runs, *(pause,) * sandbox_runs)
        about_container = method in {*OF_CONTAINERS, Method.CREATE_CONTAINER}
        harmful = container_runs if about_container else sandbox_runs and (container_runs or pod is not JOB)
        if method is Method.EXEC_SYNC and pod is not WEB:
            harmful = False  # nobody else has a hook

        found = shielded.harmed_by(call_to(method, pod), lives, used)

        assert (found is not None) == (harmful and pod is not AGENT), (pod, container_runs, sandbox_runs)
        if found is not None:
            assert found.pod == pod
            assert found.label == ("a/" + pod.name + ("/c" if about_container else ""))
            assert found.wanted


@pytest.mark.parametrize("method", [Method.STOP_POD_SANDBOX, Method.REMOVE_POD_SANDBOX, Method.RUN_POD_SANDBOX])
def test_a_pod_without_a_process_of_its_own_is_protected_with_its_containers(method: Method) -> None:
    """Stopping it stops them, so that the kernel's word about a process of the pod cannot be what counts."""
    plan = shielded_plan()
    baseline = replace(plan.baseline, sandboxes=tuple(replace(s, process=None) for s in plan.baseline.sandboxes))
    shielded = Shielded.of(replace(plan, baseline=baseline))

    for pod, container_runs in product((WEB, JOB, AGENT), (True, False)):
        lives = alive(*(PIDS[pod][0],) * container_runs)
        found = shielded.harmed_by(call_to(method, pod), lives, used)
        over = pod is JOB and not container_runs
        assert (found is not None) == (pod is not AGENT and not over), (pod, container_runs)


@pytest.mark.parametrize("pod", [CompletingPod(pod=JOB.uid, regular=("c",)), FAILED_AT_FIRST], ids=["main", "init"])
@pytest.mark.parametrize("method", [Method.STOP_POD_SANDBOX, Method.STOP_CONTAINER])
def test_a_pod_is_over_by_the_runtime_s_record_and_by_the_kernel_s(method: Method, pod: CompletingPod) -> None:
    """A runtime that was restarted may have lost track of a container that runs."""
    shielded = Shielded.of(replace(shielded_plan(), completing=(pod,)))
    lost = replace(container(JOB, 11, ContainerState.EXITED), exit_code=255)

    assert shielded.harmed_by(call_to(method, JOB), alive(11, 21), used, [lost]) is not None
    assert shielded.harmed_by(call_to(method, JOB), alive(21), used, [lost]) is None


@pytest.mark.parametrize("method", Method)
def test_what_came_later_is_nobody_s_business(method: Method) -> None:
    newcomer = PodRef(namespace="a", name="newcomer", uid=PodUid("uid-new"))
    call = call_to(method, newcomer)
    assert Shielded.of(shielded_plan()).harmed_by(call, lambda _process: True, used) is None
    assert Shielded.of(shielded_plan()).harmed_by(RuntimeCall(method=method), lambda _process: True, used) is None


def test_another_container_of_the_pod_may_be_created() -> None:
    shielded = Shielded.of(shielded_plan())
    for sandbox, name in ((sandbox_of(WEB), "other"), (SandboxId("later"), "c")):
        call = RuntimeCall(method=Method.CREATE_CONTAINER, sandbox=sandbox, name=name)
        assert shielded.harmed_by(call, lambda _process: True, used) is None


def test_a_pod_is_the_same_whatever_its_uid() -> None:
    again = replace(WEB, uid=PodUid("another"))
    found = Shielded.of(shielded_plan()).harmed_by(
        RuntimeCall(method=Method.RUN_POD_SANDBOX, pod=again), lambda _process: True, used
    )
    assert found is not None
    assert found.pod == WEB, "the excuse is that of the pod that runs"


def test_what_did_not_run_is_not_protected() -> None:
    plan = shielded_plan()
    exited = container(WEB, 10, ContainerState.EXITED)
    shielded = Shielded.of(replace(plan, baseline=Inventory(containers=(exited,))))
    assert (shielded.containers, shielded.sandboxes) == ({}, {})


@pytest.mark.parametrize(
    ("limit", "in_use", "refused"),
    [(0, 100, False), (-1, 100, False), (99, 100, True), (100, 100, False), (101, 100, False), (1, None, True)],
)
def test_a_limit_may_not_go_below_what_is_in_use(limit: int, in_use: int | None, *, refused: bool) -> None:
    call = RuntimeCall(method=Method.UPDATE_CONTAINER_RESOURCES, container=container_of(WEB), memory=limit)
    found = Shielded.of(shielded_plan()).harmed_by(call, lambda _process: True, lambda _container: in_use)
    assert (found is not None) == refused


def test_only_the_command_of_the_hook_is_one() -> None:
    call = RuntimeCall(method=Method.EXEC_SYNC, container=container_of(WEB), command=(*HOOK, "more"))
    assert Shielded.of(shielded_plan()).harmed_by(call, lambda _process: True, used) is None


@pytest.mark.parametrize(
    ("pod", "deleted", "digest", "expected"),
    [
        (WEB, {WEB.uid}, AS_FOUND, OwnerChange.POD_DELETED),
        (WEB, {JOB.uid}, AS_FOUND, None),
        (WEB, set(), AS_PINNED, None),
        (WEB, set(), EDITED, OwnerChange.MANIFEST_CHANGED),
        (WEB, set(), None, OwnerChange.MANIFEST_REMOVED),
        (JOB, set(), None, None),
        (JOB, {JOB.uid, WEB.uid}, None, OwnerChange.POD_DELETED),
    ],
)
def test_a_pod_that_is_meant_to_end_is_excused(
    pod: PodRef, deleted: set[PodUid], digest: Digest | None, expected: OwnerChange | None
) -> None:
    harmed = Protected(pod=pod, sandbox=sandbox_of(pod), label=str(pod), wanted="stop")
    found = () if digest is None else (digest,)
    evidence = Evidence(deleted=tuple(deleted)).with_manifests(shielded_plan().owned, lambda _path: found)
    assert Shielded.of(shielded_plan()).excuse(harmed, evidence) is expected


@pytest.mark.parametrize("method", [Method.STOP_CONTAINER, Method.CREATE_CONTAINER, Method.STOP_POD_SANDBOX])
def test_a_change_of_one_container_excuses_what_is_done_to_that_one_only(method: Method) -> None:
    spec = ContainerSpec(pod=WEB.uid, name="c", image="old", resources="")
    plan = replace(shielded_plan(), owned=Planned(containers=(spec, replace(spec, name="d"))))
    call = RuntimeCall(method=method, container=container_of(WEB), sandbox=sandbox_of(WEB), name="c")
    harmed = Shielded.of(plan).harmed_by(call, lambda _process: True, used)
    assert harmed is not None

    found = [
        Shielded.of(plan).excuse(harmed, Evidence(specs=(replace(spec, name=name, image="new"),))) for name in "cd"
    ]

    assert found == [None if method is Method.STOP_POD_SANDBOX else OwnerChange.IMAGE_CHANGED, None]
