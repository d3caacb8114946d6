"""Whatever a configuration or a state file holds, checks find something or nothing, and never stumble."""

import json
from dataclasses import replace
from typing import Any

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.layout import READ_AT_START, read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.registry import CHECKS, WARNINGS
from nodeupgrade.node.checks.startup import StartingHost
from tests.builders.admitted import GPU, GUARANTEED, pod, running
from tests.builders.sound import facts, readiness

WORDS = ["none", "static", "Static", "0-3", "3-0", "1", "10%", "100Mi", "5x", "LimitedSwap", "AlwaysVerify", "true"]
NAMES = ["policyName", "entries", "checksum", "PodDeviceEntries", "DeviceIDs", "cpu", "memory.available", "idsPerPod"]
LEAVES = st.none() | st.booleans() | st.integers(-1, 10**20) | st.floats(allow_nan=False) | st.sampled_from(WORDS)
VALUES = st.recursive(
    LEAVES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
SETTINGS = [
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy", "reservedSystemCPUs", "systemReserved",
    "kubeReserved", "evictionHard", "maxPods", "podsPerCore", "featureGates", "memorySwap", "failSwapOn",
    "protectKernelDefaults", "userNamespaces", "allowedUnsafeSysctls", "topologyManagerPolicy", "cgroupRoot",
    "enforceNodeAllocatable", "imagePullCredentialsVerificationPolicy", "mergeDefaultEvictionSettings",
]  # fmt: skip
FIELDS = ["policyName", "defaultCpuSet", "entries", "machineState", "checksum", "data", "dataChecksum", "Data"]
CONFIGURATIONS = st.dictionaries(st.sampled_from(SETTINGS), VALUES, max_size=4)
DOCUMENTS = VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5)
FILES = st.binary(max_size=9) | DOCUMENTS.map(lambda document: json.dumps(document).encode())
STATES = st.dictionaries(st.sampled_from(READ_AT_START), FILES, max_size=4)
VERSIONS = st.sampled_from(["v1.17.17", "v1.26.1", "v1.30.14", "v1.32.2", "v1.33.13", "v1.36.3", "v1.37.0"]).map(
    KubeletVersion.parse
)
BODIES = (pod(resources=GPU), pod("guaranteed", resources=GUARANTEED), pod("own", hostUsers=False))
PODS = tuple(parse_pod(running(body)) for body in BODIES)


@settings(max_examples=150)
@given(CONFIGURATIONS, STATES, VERSIONS, VERSIONS)
def test_no_check_stumbles(
    configuration: dict[str, Any], state: dict[str, bytes], old: KubeletVersion, new: KubeletVersion
) -> None:
    try:
        layout = read_layout(("--cgroup-driver=systemd",), yaml.safe_dump(configuration).encode())
    except ValueError:  # the node is refused for that
        assume(False)
    host = StartingHost(online_cpus="0-3", numa={0: {"memory": 2**30}})
    met = readiness(layout=layout, state=state, current=old, target=new, host=host)
    known = facts(target=new, readiness=met, pods=PODS)

    for finding in ask((*CHECKS, *WARNINGS), replace(known, kubelet=replace(known.kubelet, current=old))):
        assert finding.detail
