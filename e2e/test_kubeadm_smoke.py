"""A cluster that kubeadm made, the short of it: `init`, `join`, and the worker upgraded beside what `kubeadm` does.

The rest takes long: `make e2e-kubeadm` and e2e/test_kubeadm.py.
"""

import pytest

from e2e.conftest import MakeLab
from e2e.fleet import Fleet
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.lab.nodes import kubeadmfiles, nodefiles
from e2e.naive import survivors

PODS = 4


@pytest.fixture(scope="module")
def stage(make_lab: MakeLab) -> Stage:
    return Stage(Fleet.with_operator(make_lab("kubeadm-smoke", OLD, nodes=2, cluster="kubeadm"), pods=PODS), etcd=False)


def test_kubeadm_has_configured_the_worker(stage: Stage) -> None:
    for path in (nodefiles.KUBELET_CONFIG, kubeadmfiles.FLAGS, nodefiles.KUBELET_KUBECONFIG):
        assert (stage.worker.disk / path.lstrip("/")).is_file()
    assert not (stage.worker.disk / nodefiles.KUBELET_UNIT.lstrip("/")).exists()


def test_the_worker_is_upgraded_and_nothing_restarts(stage: Stage) -> None:
    run = stage.upgrade("smoke", NEW, [stage.worker])

    assert list(run.wrong()) == []
    assert run.containers > PODS
    assert run.watch.servers.answers > 20  # it was asked: a run takes half a minute
    assert stage.fleet.versions() == {stage.control[0].name: OLD, stage.worker.name: NEW}


def test_control_a_naive_swap_restarts_every_container(stage: Stage) -> None:
    """Without this, the above would prove nothing."""
    assert survivors(stage.worker, OLD) == set()
