"""How the operator's view of a fleet behaves with thousands of nodes. By hand: ``python -m tests.contract.kube.scale``.

A real kube-apiserver is filled with Nodes as large as real ones and a task for each; another process then does what
the operator does, and says what it took.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from e2e.lab.cluster.definitions import OURS, wait_until_established
from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.spec import TaskAction, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.decide.planner import plan
from tests.builders.tasks import task_object, task_spec
from tests.contract.kube.apiserver import running
from tests.contract.kube.conftest import ROOT
from tests.doubles.kube_fleet import node_object
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

NAME = "scale"
AT_ONCE = 32
PASSES = 10


def large_node(name: str) -> Json:
    """A Node of about 11 KB, most of it images, as kubelets report them."""
    node = node_object(name, "v1.30.14")
    node["metadata"]["labels"] |= {f"example.com/label-{n}": f"value-{n}" for n in range(20)}
    node["metadata"]["annotations"] = {f"example.com/annotation-{n}": "x" * 40 for n in range(8)}
    digest = "0123456789abcdef" * 4
    node["status"]["images"] = [
        {
            "names": [f"registry.example/team/app-{n}@sha256:{digest}", f"registry.example/team/app-{n}:1"],
            "sizeBytes": n,
        }
        for n in range(50)
    ]
    return node


async def in_parallel(jobs: Iterable[Callable[[], Awaitable[object]]]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(job: Callable[[], Awaitable[object]]) -> None:
        async with limit:
            await job()

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(one(job))


async def fill(kube: KubeClient, count: int) -> None:
    upgrade = await kube.create(UPGRADES, upgrade_object(NAME, strategy={"maxConcurrent": 10}))
    owner = UpgradeRef(name=NAME, uid=upgrade["metadata"]["uid"], generation=1)

    async def one(name: str) -> None:
        node = large_node(name)
        created = await kube.create(NODES, node)
        await kube.replace_status(NODES, name, node["status"])
        spec = replace(task_spec(name), node_uid=created["metadata"]["uid"], upgrade_ref=owner, action=TaskAction.WAIT)
        await kube.create(TASKS, {**task_object(name), "spec": to_json(replace(spec, verdict=None, wave="remainder"))})

    await in_parallel([lambda name=f"node-{n:05}": one(name) for n in range(count)])  # type: ignore[misc]


async def disturb(kube: KubeClient, count: int) -> None:
    """One heartbeat of every node, and one report of every task."""

    async def one(name: str) -> None:
        node = await kube.get(NODES, name)
        heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": datetime.now(UTC).strftime("%FT%TZ")}
        await kube.replace_status(NODES, name, {**node["status"], "conditions": [heartbeat]})
        await kube.patch_task_status(name, TaskStatus(run_id="run-1", phase=TaskPhase.STAGING))

    await in_parallel([lambda name=f"node-{n:05}": one(name) for n in range(count)])  # type: ignore[misc]


def megabytes() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def measure(kubeconfig: Path) -> None:
    """Do what the operator does; a line on standard input says when the disturbance is over."""
    told: Json = {"memory at start, MB": round(megabytes(), 1)}
    async with KubeClient.open(kubeconfig) as kube:
        heard: list[str | None] = []
        fleet = InformedFleet(kube, NAMESPACE, read_upgrade, on_change=heard.append)
        following = asyncio.ensure_future(fleet.run())
        began, used = time.monotonic(), time.process_time()
        await asyncio.gather(*(informer.at_least(0) for informer in fleet.informers))
        told["sync, s"] = round(time.monotonic() - began, 2)
        told["sync, CPU s"] = round(time.process_time() - used, 2)
        gc.collect()
        told["memory when synced, MB"] = round(megabytes(), 1)
        told["memory at most, MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)

        rollouts = Passes(WriteThrough(kube, fleet), AgentPodSettings(namespace=NAMESPACE, image="x"), fleet=fleet)
        for _ in range(3):
            await rollouts.reconcile(NAME)  # accepted, planned, and the first nodes admitted
        passes, gathering, planning = list[float](), list[float](), list[float]()
        for _ in range(PASSES):
            began, used = time.monotonic(), time.process_time()
            snapshot = await rollouts.gather(NAME)
            gathering.append(time.process_time() - used)
            used = time.process_time()
            plan(snapshot, datetime.now(UTC))
            planning.append(time.process_time() - used)
            passes.append(time.monotonic() - began)
        told["pass, s (median)"] = round(sorted(passes)[PASSES // 2], 3)
        told["gather of a pass, CPU s (median)"] = round(sorted(gathering)[PASSES // 2], 3)
        told["plan of a pass, CPU s (median)"] = round(sorted(planning)[PASSES // 2], 3)

        before, used = len(heard), time.process_time()
        print("ready", flush=True)
        events = int(await asyncio.to_thread(sys.stdin.readline))
        newest = int((await kube.get(TASKS, "node-00000"))["metadata"]["resourceVersion"])
        await fleet.tasks.at_least(newest)
        told["CPU per event, µs"] = round((time.process_time() - used) / events * 1e6)
        told["events that concern somebody"] = f"{len(heard) - before} of {events}"
        told["memory after them, MB"] = round(megabytes(), 1)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    print(json.dumps(told, ensure_ascii=False), flush=True)


async def orchestrate(count: int) -> None:
    with running() as server:
        server.kubectl("apply", "-k", str(ROOT / "manifests"))
        wait_until_established(server.kubectl, *OURS)
        async with KubeClient.open(server.kubeconfig()) as admin:
            began = time.monotonic()
            await fill(admin, count)
            print(f"{count} Nodes and tasks made in {time.monotonic() - began:.0f} s", file=sys.stderr)
            argv = (sys.executable, "-m", "tests.contract.kube.scale", "--measure", str(server.kubeconfig("operator")))
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
            assert process.stdin is not None
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            await disturb(admin, count)
            process.stdin.write(f"{2 * count}\n".encode())
            for name, value in json.loads((await process.communicate())[0]).items():
                print(f"{name:35} {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--measure", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asyncio.run(orchestrate(arguments.nodes) if arguments.measure is None else measure(arguments.measure))


if __name__ == "__main__":
    main()
