"""Tests how the kubelet's files are examined."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused
from nodeupgrade.kubelet.layout import SOCKETS
from nodeupgrade.node.facts.kubelet_files import irreplaceable
from tests.builders.gathered import gathered, node
from tests.doubles.node.kubelet import PROGRAM


def test_files_of_a_run_that_are_mounted_where_they_lie_are_told() -> None:
    manifests = "/etc/kubernetes/manifests"
    points = {"/": 1, PROGRAM: 1, manifests: 1, f"{manifests}/etcd.yaml": 3, "/etc/other": 1}
    lines = (f"{number} {above} 8:1 / {at} rw - ext4 /dev/a rw" for number, (at, above) in enumerate(points.items(), 1))
    seen = node(f"--pod-manifest-path={manifests}", files={"/proc/1/mountinfo": "\n".join(lines).encode()})

    assert gathered(seen).readiness.mounted == (PROGRAM, f"{manifests}/etcd.yaml")


@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.parametrize(("below", "kind"), [("/theirs", "a directory"), ("", "a regular file")])
def test_what_is_no_socket_where_a_kubelet_makes_one_is_refused(name: str, below: str, kind: str) -> None:
    seen = node(files={f"/var/lib/kubelet/{name}{below}": b""})

    with pytest.raises(Refused, match=f"/var/lib/kubelet/{name} is {kind}") as refused:
        gathered(seen)
    assert refused.value.finding.reason is Reason.KUBELET_WOULD_NOT_START


@pytest.mark.parametrize("path", ["/var/log/containers", "/var/log/pods", "/data/pods"])
def test_what_is_no_directory_where_a_kubelet_makes_one_for_logs_is_refused(path: str) -> None:
    config = {"/c": b"podLogsDir: /data/pods"} if path == "/data/pods" else {}
    seen = node(*(f"--config={each}" for each in config), files=config)
    seen.files.links = {path: "/nowhere"}

    with pytest.raises(
        Refused, match=f"{path} is a symbolic link, where a starting kubelet makes a directory"
    ) as refused:
        gathered(seen)
    assert refused.value.finding.reason is Reason.KUBELET_WOULD_NOT_START


def test_a_directory_of_which_a_kubelet_would_look_at_too_much_is_refused() -> None:
    seen = node()
    seen.files.crowds.add("/var/lib/kubelet/device-plugins")

    with pytest.raises(Refused, match=r"/var/lib/kubelet/device-plugins has more than 10000 entries") as refused:
        gathered(seen)
    assert refused.value.finding.reason is Reason.KUBELET_WOULD_NOT_START


def test_a_kubelet_replaces_its_old_socket_and_no_link_wherever_it_leads() -> None:
    seen = node()
    paths = [PurePosixPath("/var/lib/kubelet", name) for name in SOCKETS]
    seen.files.links = {str(paths[1]): str(paths[0])}
    seen.files.sockets.update(map(str, paths))

    assert [path for path, _ in irreplaceable(seen.files, paths)] == [paths[1]]
