"""Where a kubelet looks for the cgroups of its pods."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.kubelet.settings import configured
from nodeupgrade.kubelethash import QosClass
from nodeupgrade.node.host import pod_cgroups


@pytest.mark.parametrize(
    ("words", "driver", "qos", "path"),
    [
        ((), "systemd", QosClass.GUARANTEED, "kubepods.slice/kubepods-pod0a_b.slice"),
        (
            (), "systemd", QosClass.BURSTABLE,
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a_b.slice",
        ),
        (("--cgroup-root=/",), "cgroupfs", QosClass.BEST_EFFORT, "kubepods/besteffort/pod0a-b"),
        (("--cgroup-root=/k8s/a-b",), "cgroupfs", QosClass.GUARANTEED, "k8s/a-b/kubepods/pod0a-b"),
        (
            ("--cgroup-root=/k8s",), "systemd", QosClass.GUARANTEED,
            "k8s.slice/k8s-kubepods.slice/k8s-kubepods-pod0a_b.slice",
        ),
    ],
)  # fmt: skip
def test_a_pods_cgroup_is_where_a_kubelet_looks_for_it(
    words: tuple[str, ...], driver: str, qos: QosClass, path: str
) -> None:
    assert pod_cgroups.of_pod(configured(words), driver, "0a-b", qos) == PurePosixPath(path)
    assert PurePosixPath(path).is_relative_to(pod_cgroups.all_pods(configured(words), driver))


def test_a_kubelet_may_manage_no_cgroups() -> None:
    assert pod_cgroups.manages_cgroups(configured(()))
    assert not pod_cgroups.manages_cgroups(configured((), b"cgroupsPerQOS: false"))
