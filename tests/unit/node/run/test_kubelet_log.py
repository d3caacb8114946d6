"""A line of a kubelet's log counts by the source file that wrote it: pods write into that log too."""

import json

import pytest

from nodeupgrade.node.run.kubelet_log import cause, evicts, last_errors, quoted
from nodeupgrade.node.shield.shield import RefusedCall

MUST_EVICT = "Eviction manager: must evict pod(s) to reclaim"
HEADER = "1127 16:07:00.395017    9295"
CALL = RefusedCall(
    at="", monotonic=1.0, method="StopContainer", instance="3f3f", label="default/web/main", wanted="stop"
)


@pytest.mark.parametrize("line", [
    f'I{HEADER} eviction_manager.go:387] "{MUST_EVICT}" resourceName="memory"',
    f"W{HEADER} eviction_manager.go:341] eviction manager: must evict pod(s) to reclaim memory",
    json.dumps({"ts": 1.5, "caller": "eviction/eviction_manager.go:387", "msg": MUST_EVICT, "v": 0}),
    json.dumps({"caller": "eviction_manager.go:1", "msg": MUST_EVICT}),
])  # fmt: skip
def test_a_kubelet_that_evicts_says_so_from_one_file(line: str) -> None:
    assert evicts((f"I{HEADER} server.go:1] fine", line))


@pytest.mark.parametrize("line", [
    f'"{MUST_EVICT}" resourceName="memory"',
    f'I{HEADER} prober.go:107] "Probe failed" probeType="Readiness" output="{MUST_EVICT}"',
    f"I{HEADER} prober.go:112] Readiness probe for a failed (failure): I{HEADER} eviction_manager.go:1] {MUST_EVICT}",
    f'\tI{HEADER} eviction_manager.go:387] "{MUST_EVICT}"',
    f"x I{HEADER} eviction_manager.go:387] {MUST_EVICT}",
    f"I{HEADER} not_eviction_manager.go:387] {MUST_EVICT}",
    f"I{HEADER} eviction_manager.go:387] \"Attempting\" pod=\"{MUST_EVICT}\"",
    json.dumps({"caller": "prober/prober.go:107", "msg": "Probe failed", "output": MUST_EVICT}),
    json.dumps({"caller": "prober/prober.go:107", "msg": MUST_EVICT, "output": "eviction_manager.go:387"}),
    json.dumps({"caller": ["eviction_manager.go:387"], "msg": MUST_EVICT}),
    json.dumps([{"caller": "eviction_manager.go:387", "msg": MUST_EVICT}]),
    '{"caller":"eviction/eviction_manager.go:387","msg":"' + MUST_EVICT,
    "[" * 100_000,
])  # fmt: skip
def test_what_a_pod_writes_into_the_log_is_no_eviction(line: str) -> None:
    assert not evicts((line,))


def test_what_a_pod_writes_is_quoted_as_no_cause_and_no_error() -> None:
    told = f'I{HEADER} kuberuntime_container.go:770] "Killing container" pod="default/web" containerID="3f3f"'
    log = (told, "3f3f default/web rejected", f'\tE{HEADER} x.go:1] "3f3f" err="default/web rejected"')

    assert cause(log, CALL) == f"; the kubelet wrote: {told}"
    assert quoted(log, "3f3f") == f"; the kubelet wrote: {told}"
    assert last_errors(log) == ""


def test_the_line_with_the_cause_is_preferred() -> None:
    probe = f'I{HEADER} prober.go:107] "Probe failed" probeType="Liveness" pod="default/web" containerName="main"'
    log = (probe, f'I{HEADER} kuberuntime_container.go:770] "Killing container" containerID="3f3f"')

    assert cause(log, CALL) == f"; the kubelet wrote: {probe}"


SPEC = (
    "&Container{Name:main,Image:nginx,Command:[],Args:[],WorkingDir:,Ports:[]ContainerPort{},EnvFrom:[]EnvFromSource{},"
    "Env:[]EnvVar{EnvVar{Name:PASSWORD,Value:hunter2 start failed in pod 3f3f: default/web rejected,ValueFrom:nil,},},}"
)
FAILED = 'start failed in pod web_default(3f3f default/web): CreateContainerConfigError: secret "x" not found'


@pytest.mark.parametrize("line", [
    f"E{HEADER} kuberuntime_manager.go:1274] container {SPEC} {FAILED}",
    f"E{HEADER} kuberuntime_manager.go:1274] container &Container{{Env:x}} start failed in pod hunter2,}} {FAILED}",
    f'E{HEADER} kuberuntime_manager.go:1358] "Unhandled Error" err={json.dumps(f"container {SPEC} {FAILED}")}',
    json.dumps({"caller": "kuberuntime_manager.go:1", "msg": "Unhandled Error", "err": f"container {SPEC} {FAILED}"}),
])  # fmt: skip
def test_what_kubelets_write_of_a_containers_spec_is_not_told(line: str) -> None:
    """They write all of it, with the values of its environment, when a container does not start (1.19 to 1.33)."""
    for told in (last_errors((line,)), cause((line,), CALL), quoted((line,), "3f3f")):
        assert "hunter2" not in told
        assert "container … start failed in pod web_default" in told


def test_nor_where_the_journal_has_cut_the_line() -> None:
    line = f"E{HEADER} kuberuntime_manager.go:1274] container {SPEC}"

    assert last_errors((line[:-60],)) == "; the kubelet wrote: container …"


ENVIRONMENT = '"env":[{"name":"PASSWORD","value":"hunter2"}]'
ACTIONS = '{"KillPod":false,"SandboxID":"3f3f","NextInitContainerToStart":{"name":"rejected",' + ENVIRONMENT + "}}"
POD = "&Pod{ObjectMeta:{web default map[last-applied-configuration:{" + ENVIRONMENT + "}]},Spec:PodSpec{},}"


@pytest.mark.parametrize("line", [
    f'I{HEADER} kuberuntime_manager.go:1053] "computePodActions got for pod" podActions={ACTIONS} pod="default/web"',
    f'{{"caller":"kuberuntime_manager.go:1","msg":"computePodActions","podActions":{ACTIONS},"pod":"default/web"}}',
    f"E{HEADER} config.go:1] 3f3f default/web rejected: {POD}",
    f'E{HEADER} config.go:1] "rejected" err={json.dumps(POD)} pod="default/web" id="3f3f"',
])  # fmt: skip
def test_nor_is_a_pod_that_they_write_as_a_whole(line: str) -> None:
    """A verbose kubelet up to 1.29 writes the init container that comes next, with its environment."""
    for told in (last_errors((line,)), cause((line,), CALL), quoted((line,), "3f3f")):
        assert "hunter2" not in told
