"""What real kubelets showed at ``/configz``, against the files that they had read: the lab's, and kubeadm's kind."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeupgrade.kubelet.settings import configured
from nodeupgrade.node.checks.running_configuration import compare

RECORDED = sorted((Path(__file__).parent / "configz").glob("*.json"))
WORDS = ("--container-runtime-endpoint=unix:///run/containerd/containerd.sock",)
LAB: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "staticPodPath": "/etc/kubernetes/manifests",
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    "registerNode": True,
    "rotateCertificates": False,
    "healthzBindAddress": "127.0.0.1",
    "healthzPort": 10248,
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
    },
    "authorization": {"mode": "Webhook"},
    "clusterDomain": "cluster.local",
    "resolvConf": "/etc/resolv.conf",
    "kubeAPIQPS": 50,
    "kubeAPIBurst": 100,
    "serializeImagePulls": False,
    "evictionHard": {
        "memory.available": "10Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
    },
    "imageGCHighThresholdPercent": 99,
    "imageGCLowThresholdPercent": 98,
    "failCgroupV1": False,
}  # fmt: skip
ZEROS = """
cpuManagerReconcilePeriod: 0s
containerRuntimeEndpoint: ""
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""
"""As kubeadm writes what nobody has set."""

SAME: tuple[list[str], list[str]] = ([], [])


def shown(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_kubelet_is_known_by_its_file(path: Path) -> None:
    running = shown(path)
    written = {**LAB, "maxPods": running["maxPods"]}
    files = (yaml.safe_dump(written).encode(), ZEROS.encode())

    assert compare(configured(WORDS, *files), running) == SAME
    assert compare(configured(WORDS, *files), running | {"maxPods": 7})[0]
    for key in ("evictionHard", "failSwapOn", "serializeImagePulls", "imageGCHighThresholdPercent"):
        rest = {name: value for name, value in written.items() if name != key}
        assert compare(configured(WORDS, yaml.safe_dump(rest).encode()), running) != SAME, key
