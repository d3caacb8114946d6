"""A node as kubeadm's packages leave it, and what kubeadm is asked to make of it."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.kubeadm.row import Row, Seen, result
from e2e.kubeadm.stage import Upgraded
from e2e.kubeadm.watching import Asked, Watch
from e2e.lab import LabError, LabSpec
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm
from e2e.lab.naming import NodeAddresses
from e2e.lab.nodes import kubeadmfiles, nodefiles, nodeimages
from e2e.lab.runtimes import runtime_named

CONTAINERD = runtime_named("containerd")
FILES = kubeadmfiles.node_files("node2", NodeAddresses(2), CONTAINERD)


def test_the_packages_bring_a_unit_with_a_drop_in_and_no_configuration() -> None:
    assert {kubeadmfiles.KUBELET_UNIT, kubeadmfiles.KUBELET_DROP_IN} <= set(FILES)
    assert not {nodefiles.KUBELET_UNIT, nodefiles.KUBELET_CONFIG, nodefiles.KUBELET_FLAGS} & set(FILES)
    *_, command, last = FILES[kubeadmfiles.KUBELET_DROP_IN].split("\n")
    assert (command.split()[0], last) == ("ExecStart=/usr/bin/kubelet", "")
    assert "$KUBELET_KUBEADM_ARGS" in command.split()


def test_nodes_reach_the_api_server_on_the_first_node_at_both_addresses() -> None:
    rules = FILES["/etc/lab/iptables"].splitlines()
    assert "-A OUTPUT -d 10.240.0.1/32 -p tcp --dport 6443 -j DNAT --to-destination 10.240.0.11:6443" in rules
    assert "-A PREROUTING -d 10.96.0.1/32 -p tcp --dport 443 -j DNAT --to-destination 10.240.0.11:6443" in rules
    assert "-A POSTROUTING -s 10.244.2.0/24 -d 10.240.0.11/32 -j MASQUERADE" in rules


def test_without_kubeadm_only_the_service_address_is_led_elsewhere() -> None:
    rules = nodefiles.iptables_rules(NodeAddresses(2))
    assert rules.count("DNAT") == 2
    assert "-d 10.240.0.1/32 -p tcp" not in rules


def test_containerd_uses_the_cgroups_of_systemd() -> None:
    assert FILES["/etc/containerd/config.toml"].endswith("SystemdCgroup = true\n")


@pytest.mark.parametrize(("programs", "first"), [("1.33.13", "1.33.12"), ("1.34.0", "1.34.0")])
def test_a_cluster_starts_a_patch_earlier_if_there_is_one(programs: str, first: str) -> None:
    assert str(kubeadm.first_release(Version.parse(programs))) == first


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 0},
        {"runtime": "docker"},
        {"cluster": "kind"},
        {"nodes": 2, "control_planes": 3},
        {"control_planes": 0},
        {"cluster": "plain", "nodes": 3, "control_planes": 3},
    ],
)
def test_what_no_cluster_can_be_made_of_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LabError, match="kubeadm"):
        LabSpec(**{"cluster": "kubeadm", **change})  # type: ignore[arg-type]


def started_by(archive: Path) -> dict[str, Any]:
    """Return what starts a container of an image."""
    with tarfile.open(archive) as files:

        def read(name: str) -> Any:
            stream = files.extractfile(name)
            assert stream is not None
            return json.load(stream)

        config: dict[str, Any] = read(read("manifest.json")[0]["Config"])["config"]
    return config


def test_arguments_of_a_pod_go_to_the_entrypoint_of_its_image(tmp_path: Path) -> None:
    """`kubeadm upgrade` starts a pause container with an argument only."""
    nodeimages.write_archive(tmp_path / "pause.tar", "pause:1", b"", [], ["/bin/pause"])
    nodeimages.write_archive(tmp_path / "other.tar", "other:1", b"", ["sh"])
    assert started_by(tmp_path / "pause.tar")["Entrypoint"] == ["/bin/pause"]
    assert "Entrypoint" not in started_by(tmp_path / "other.tar")


def test_a_line_of_the_table_tells_what_is_not_as_it_must_be() -> None:
    watch = Watch(servers=Asked(3, ["refused"]), etcd=Asked(2))
    run = Upgraded(ended="RolledBack (`X`)", message="why", containers=9, disturbed=("web",), watch=watch, seconds=1)
    row = Row(name="a/b", does="what is done", play=lambda _: Seen())

    wrong = tuple(run.wrong())
    line = str(result(row, Seen(run=run, said="seen", complaints=wrong), 1.0))

    assert line.startswith("| what is done | RolledBack (`X`) | 9 | 1 | 3, 1 failed | 2, 0 failed | seen; **")
    assert [each.split()[0] for each in wrong] == ["ended", "1", "an"]
    assert not [*Upgraded(
        ended="Succeeded", message="", containers=9, disturbed=(), watch=Watch(), seconds=1
    ).wrong()]  # fmt: skip
