"""Old kubelets, upgraded across the eras of go-spew and JSON; what each stores is what ``kubelethash`` computes."""

from collections.abc import Callable

import pytest

from e2e import hashes
from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import oldtokens
from e2e.lab.workloads import workload
from e2e.naive import survivors

pytestmark = [pytest.mark.long, pytest.mark.slow]

PODS = 12


@pytest.mark.parametrize(
    ("old", "new", "source", "control", "runtime"),
    [
        pytest.param("1.20.15", "1.33.13", "url", "1.30.14", "containerd", id="1.20.15-to-1.33.13-by-url"),
        # These two kubelets are those of test_docker.py as well.
        pytest.param(
            "1.15.0", "1.17.17", "preStaged", "1.15.0", "containerd",
            id="1.15.0-to-1.17.17-by-file",
        ),
        # These kubelets take minutes to build.
        pytest.param(
            "1.7.0", "1.9.11", "preStaged", "1.7.0", "docker",
            id="1.7.0-to-1.9.11-by-file",
        ),
        pytest.param(
            "1.12.10", "1.17.17", "preStaged", "1.12.10", "docker",
            id="1.12.10-to-1.17.17-by-file",
        ),
    ],
)  # fmt: skip
def test_upgrade_and_control(  # noqa: PLR0917 - the row of a table
    make_cluster: Callable[..., Cluster], old: str, new: str, source: str, control: str, runtime: str
) -> None:
    # Kubelets up to 1.15 cannot create mirror pods on a current API server: their static pod is in its manifest only.
    cluster = make_cluster(f"e2e-{old.replace('.', '-')}", old, pods=PODS, static=True, runtime=runtime)
    before = cluster.wait_settled()
    hashes.assert_reproduced(cluster, old)

    if source == "url":
        with cluster.url(new) as artifact:
            cluster.apply("up", new, artifact, verify=quickly())
            upgrade = cluster.wait_for_end("up")
    else:
        # The lab gives the pods of kubelets that request no tokens theirs.
        accept = ["tokens_are_requested"] if Version.parse(old).release < oldtokens.ASKED_FOR else []
        cluster.apply("up", new, cluster.pre_staged(new), verify=quickly(), preflight={"accept": accept})
        upgrade = cluster.wait_for_end("up")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", (upgrade["status"], cluster.task()["status"])
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == new
    assert cluster.schedulable()

    # What the new kubelet creates by itself, it hashes as was computed for it, too.
    renew(cluster, new)
    hashes.assert_reproduced(cluster, new)

    # The control: a plain swap back across the eras restarts everything.
    cluster.wait_settled()
    assert survivors(cluster.node, control) == set()
    if control != old:
        renew(cluster, control)
        hashes.assert_reproduced(cluster, control)


def renew(cluster: Cluster, version: str) -> None:
    """Replace all pods by new ones, of the kinds that this version of the kubelet supports."""
    workload.renew(cluster.lab, workload.mixed_workload(PODS, cluster.node.name, kubelet=version))
