"""A seed stands for a node and its swaps, always the same ones."""

import random
from datetime import timedelta

import pytest

from e2e.busy import SHAPES
from e2e.faults.kinds import FAULTS
from e2e.soak import draw, playable
from nodeupgrade.kubelet.probe_delay import exposure

BOTH = ("containerd", "docker")


def _chance() -> random.Random:
    return random.Random(1)  # noqa: S311 - a trial, not a secret


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_repeats(seed: int) -> None:
    node = draw.node(seed, BOTH)
    swaps = [draw.swap(node, number) for number in range(1, 30)]

    assert node == draw.node(seed, BOTH)
    assert swaps == [draw.swap(node, number) for number in range(1, 30)]
    assert {swap.shape for swap in swaps} <= SHAPES.keys()
    assert not any(swap.fault for swap in swaps) or node.pair.all_change
    assert all(swap.shape == "quiet" for swap in swaps if swap.fault and swap.fault.reboots)


def test_no_fault_takes_the_port_that_the_probes_of_the_pods_ask_at() -> None:
    taking = {fault.name for fault in FAULTS if fault.name.startswith("port/health")}
    drawn = [draw.swap(draw.node(seed, BOTH), number) for seed in range(200) for number in range(1, 60)]

    assert taking
    assert taking.isdisjoint(swap.fault.name for swap in drawn if swap.fault is not None)


@pytest.mark.parametrize("seed", range(20))
def test_a_runtime_that_keeps_no_digests_gets_no_kubelet_out_of_an_image(seed: int) -> None:
    node = draw.node(seed, ["docker"])

    assert {draw.swap(node, number).source for number in range(1, 60)} == {"preStaged", "url"}


def test_pods_that_were_drawn_need_nothing_that_a_lab_lacks() -> None:
    pods = playable.drawn(_chance(), 200, "node1", sidecars=True)
    volumes = [volume for pod in pods for volume in pod["spec"]["volumes"]]
    mounted = [
        (pod["metadata"]["name"], mount["name"])
        for pod in pods
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
        for mount in container["volumeMounts"]
    ]

    assert len({pod["metadata"]["name"] for pod in pods}) == 200
    assert all(volume.keys() == {"name", "emptyDir"} for volume in volumes)
    there = {(pod["metadata"]["name"], volume["name"]) for pod in pods for volume in pod["spec"]["volumes"]}
    assert set(mounted) <= there
    assert "hostPort" not in str(pods)


def test_older_kubelets_get_no_sidecars() -> None:
    pods = playable.drawn(_chance(), 200, "node1", sidecars=False)

    assert not any("restartPolicy" in container for pod in pods for container in pod["spec"]["initContainers"])


def test_new_kubelets_have_soon_probed_pods_that_were_drawn() -> None:
    pods = playable.drawn(_chance(), 200, "node1", sidecars=True)
    containers = [each for pod in pods for each in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])]
    probes = [each[kind] for each in containers for kind in ("livenessProbe", "readinessProbe") if kind in each]

    assert {name for probe in probes for name in probe} & {"exec", "httpGet", "tcpSocket", "grpc"} == {
        "exec", "httpGet", "tcpSocket",
    }  # fmt: skip
    assert max(map(exposure, pods)) <= timedelta(seconds=30)
