"""Old kubelets, upgraded across the eras of go-spew and JSON."""

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster, conditions, disturbed


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        pytest.param("1.15.0", "1.17.17", "url", id="1.15.0-to-1.17.17-by-url"),
        pytest.param("1.20.15", "1.33.13", "preStaged", id="1.20.15-to-1.33.13-by-file"),
    ],
)
def test_upgrade_and_control(make_cluster: Callable[..., Cluster], old: str, new: str, source: str) -> None:
    # Kubelet 1.15 cannot create mirror pods on a current API server, so its static pod is in its manifest only.
    cluster = make_cluster(f"e2e-{old.replace('.', '-')}", old, pods=12, static=True)
    before = cluster.wait_settled()

    if source == "url":
        with cluster.url(new) as artifact:
            cluster.apply("up", new, artifact)
            upgrade = cluster.wait_for_end("up")
    else:
        cluster.apply("up", new, cluster.pre_staged(new))
        upgrade = cluster.wait_for_end("up")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", (upgrade["status"], cluster.task()["status"])
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == new
    assert cluster.schedulable()

    # The control: a plain swap back across the eras restarts everything.
    running = {c.id for c in cluster.node.snapshot().running()}
    cluster.node.swap_naively(old if new != "1.33.13" else "1.30.14")
    assert {c.id for c in cluster.wait_settled().running()} & running == set()
