"""Provides a Pod with one container, and the plan for that container."""

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import PlannedContainer
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, SandboxInstance, StoredHashes

POD = PodRef(namespace="ns", name="web", uid=PodUid("uid-1"))
OLD, NEW = StoredHashes(container=HashValue("01d")), StoredHashes(container=HashValue("2e2"))
SANDBOX = SandboxInstance(
    id=SandboxId("sandbox"),
    pod=POD,
    ready=True,
    attempt=0,
    created_at=1,
    host_network=False,
    process=Process(pid=10, started=100),
    monitor=Process(pid=9, started=99),
    ip="10.0.0.1",
)
MAIN = ContainerInstance(
    id=ContainerId("main"),
    name="main",
    sandbox_id=SANDBOX.id,
    pod=POD,
    state=ContainerState.RUNNING,
    attempt=0,
    created_at=2,
    started_at=3,
    process=Process(pid=11, started=101),
    hashes=OLD,
)


PLANNED = PlannedContainer(
    id=MAIN.id, name=MAIN.name, pod=POD, before=OLD, after=NEW, compared=True, may_complete=False
)
