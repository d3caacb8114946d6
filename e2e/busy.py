"""Upgrade a real node that is never quiet, there and back, for each way in which nodes are busy.

``python -m e2e.busy --pods 20 --json FILE`` takes some four minutes for each shape. Nothing else may be lost, and the
time without a kubelet is compared with that of the shape ``quiet``, and with bare restarts beside the same shape.
"""

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from e2e import floors, pods
from e2e.cluster import Cluster, Object
from e2e.faults.fault import UP, Fault, upgrade_under
from e2e.faults.kinds.pods import again_and_again, streaming
from e2e.faults.run import FaultRun, Harm
from e2e.floors import Floor
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.progress import Lines
from e2e.lab.runtimes import runtime_named
from e2e.pods import NAMESPACE

CONTROL_PLANE = "1.33.13"
ATTEMPTS = 2
"""At which attempt a run succeeds at the latest."""
CRASHES = ("sleep 0.3; exit 1", "sleep 2; exit 1", "sleep 6; exit 1", "sleep 6; exit 0") * 2
JOB_SECONDS = (2, 5, 8, 12, 16, 20)
APPLIED_AT = 54
"""The second of a minute at which a node with CronJobs is upgraded: the next one begins as its kubelet is stopped."""
SIZES = (1, 5)
"""The sizes of a Deployment that is scaled up and down."""
OTHER_NAME = "nodeupgrade.test/busybox:2"
"""Another name of the lab's image: containers restart for it, and pull nothing."""


def quiet(_run: FaultRun) -> Iterator[None]:
    """Leave the node alone."""
    yield
    yield


def crashing(run: FaultRun) -> Iterator[None]:
    """Have containers that end again and again, some of them in CrashLoopBackOff."""
    run.free.add(f"{NAMESPACE}/crashing-")
    names = [f"crashing-{number}" for number in range(len(CRASHES))]
    ends = zip(names, CRASHES, strict=True)
    run.cluster.lab.apply(*(pods.pod(run.cluster, name, pods.container("main", script)) for name, script in ends))
    time.sleep(10)
    yield
    yield
    pods.forget(run.cluster, *names)
    pods.wait_ended(run.cluster, "crashing-")


def cron_jobs(run: FaultRun) -> Iterator[None]:
    """Have CronJobs that start a pod each at every minute, one of which begins as the kubelet is stopped."""
    run.free.add(f"{NAMESPACE}/cron-")
    names = [f"cron-{seconds}" for seconds in JOB_SECONDS]
    for name, seconds in zip(names, JOB_SECONDS, strict=True):
        run.cluster.lab.apply(_cron_job(run.cluster, name, seconds))
    time.sleep((APPLIED_AT - time.time()) % 60)
    yield
    yield
    _delete_with_pods(run, "cronjob", *names)
    pods.wait_ended(run.cluster, "cron-")


def _cron_job(cluster: Cluster, name: str, seconds: int) -> Object:
    job = {
        "template": {
            "spec": {
                "nodeName": cluster.node.name, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "containers": [pods.container("main", f"sleep {seconds}")],
            },
        },
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": job}},
    }  # fmt: skip


def _delete_with_pods(run: FaultRun, kind: str, *names: str) -> None:
    """Delete what makes pods, and wait until its pods are gone, those as well that are yet to be started."""
    foreground = ("--cascade=foreground", "--wait=true", "--timeout=240s")
    run.cluster.lab.kubectl("delete", kind, "-n", NAMESPACE, *names, *foreground, timeout=250)


def scaled(run: FaultRun) -> Iterator[None]:
    """Scale a Deployment that names the node up and down, past the scheduler, so that the cordon does not stop it.

    A node that cannot keep up gets no more than twice as many pods as would be there if it could.
    """
    run.free.add(f"{NAMESPACE}/scaled-")
    lab, sizes = run.cluster.lab, itertools.cycle(SIZES)
    template = {
        "metadata": {"labels": {"app": "scaled"}},
        "spec": {
            "nodeName": run.cluster.node.name, "terminationGracePeriodSeconds": 1, "containers": [pods.container()],
        },
    }  # fmt: skip
    lab.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled", "namespace": NAMESPACE},
        "spec": {"replicas": max(SIZES), "selector": {"matchLabels": {"app": "scaled"}}, "template": template},
    })  # fmt: skip

    def scale() -> None:
        with contextlib.suppress(LabError):  # of an API server that a fault has stopped, too
            if len(lab.api.list("pods", namespace=NAMESPACE, labels="app=scaled")) > 2 * max(SIZES):
                return
            lab.api.patch("deployments", "scaled", {"spec": {"replicas": next(sizes)}}, namespace=NAMESPACE)

    with again_and_again(scale, seconds=3):
        time.sleep(5)
        yield
        yield
    _delete_with_pods(run, "deployment", "scaled")
    pods.wait_ended(run.cluster, "scaled-")


def patched(run: FaultRun) -> Iterator[None]:
    """Change the images of running pods in place, as OpenKruise does; their containers restart because of it."""
    run.free.add(f"{NAMESPACE}/patched-")
    lab, names = run.cluster.lab, [f"patched-{number}" for number in range(4)]
    run.cluster.node.exec("ctr", "-n", "k8s.io", "images", "tag", "--force", BUSYBOX, OTHER_NAME)
    lab.apply(*(pods.pod(run.cluster, name) for name in names))
    for name in names:
        pods.wait_ready(run.cluster, name)
    images = itertools.cycle((OTHER_NAME, BUSYBOX))

    def patch() -> None:
        image = next(images)
        for name in names:
            with contextlib.suppress(LabError):
                spec = {"containers": [{"name": "main", "image": image}]}
                lab.api.patch("pods", name, {"spec": spec}, namespace=NAMESPACE)

    with again_and_again(patch, seconds=4):
        yield
        yield
    pods.forget(run.cluster, *names)
    pods.wait_ended(run.cluster, "patched-")


SHAPES: dict[str, Harm] = {
    "quiet": quiet,
    "one pod every 5 s": streaming(5),
    "one pod every 1.5 s": streaming(1.5),
    "one pod every 0.5 s": streaming(0.5),
    "crash loops": crashing,
    "CronJobs each minute": cron_jobs,
    "a Deployment scaled up and down": scaled,
    "images patched in place": patched,
}
"""What happens on the node besides, from before the upgrade until it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One upgrade of the node."""

    shape: str
    pods: int
    to: str  # version of the kubelet
    ended: str
    attempts: int  # runs that an executor began
    refused: int  # looks before that turned the node away
    kubelet_down_seconds: float | None
    floor_seconds: float | None  # bare restarts of runtime and kubelet right afterwards, beside the same
    row_seconds: int
    load: float  # the machine's load, averaged over the last minute
    notes: str
    complaints: tuple[str, ...]  # what is not as it must be


@click.command()
@click.option("--pods", "size", default=20, show_default=True, help="Pods on the node that are not to be disturbed.")
@click.option("--only", multiple=True, type=click.Choice([*SHAPES]), help="Which shapes; repeatable.")
@click.option("--name", default="busy", show_default=True, help="Name of the lab that is made for it.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Append a line of JSON per upgrade to this file.")
def main(size: int, only: tuple[str, ...], name: str, file: Path | None) -> None:
    """Upgrade a busy node there and back, for each shape."""
    kubelet, _ = runtime_named("containerd").eras
    lab = Lab.anew(LabSpec(name=name, nodes=1, kubelet=kubelet, control_plane=CONTROL_PLANE), Lines())
    wrong = 0
    try:
        cluster, known = Cluster.with_operator(lab, pods=size), dict[tuple[str, str], str]()
        for shape, _ in itertools.product(only or SHAPES, range(2)):
            swap = _swap(cluster, shape, size, known)
            wrong += bool(swap.complaints)
            line = json.dumps(asdict(swap))
            click.echo(line)
            if file is not None:
                with file.open("a") as stream:
                    stream.write(f"{line}\n")
    finally:
        lab.down()
    if wrong:
        raise click.ClickException(f"{wrong} upgrades did not end as they must")


def _swap(cluster: Cluster, shape: str, size: int, known: dict[tuple[str, str], str]) -> Swap:
    floor: list[Floor] = []

    def measured(run: FaultRun) -> Iterator[None]:
        happening = SHAPES[shape](run)
        for _ in range(2):
            next(happening)
            yield
        floor.append(floors.measure(cluster))
        next(happening, None)

    row = upgrade_under(cluster, Fault(f"busy/{re.sub('[^a-z0-9]+', '-', shape.lower())}", measured, UP), known)
    task = cluster.task()
    this = task["spec"]["upgradeRef"]["name"]
    refused = sum(run["upgrade"] == this for run in task["spec"].get("history", ()))
    late = (f"{row.attempts} attempts",) if row.attempts > ATTEMPTS else ()
    return Swap(
        shape=shape,
        pods=size,
        to=task["spec"]["toVersion"].removeprefix("v"),
        ended=row.ended,
        attempts=row.attempts,
        refused=refused,
        kubelet_down_seconds=float(row.down) if row.down else None,
        floor_seconds=round(floor[0].kubelet + floor[0].runtime, 3) if floor else None,
        row_seconds=round(row.seconds),
        load=round(os.getloadavg()[0], 1),
        notes=row.notes,
        complaints=(*row.complaints, *late),
    )


if __name__ == "__main__":
    main()
