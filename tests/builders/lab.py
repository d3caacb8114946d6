"""Builds addresses and snapshots of nodes in the lab."""

from e2e.lab import ContainerInstance, NodeSnapshot, SandboxInstance
from e2e.lab.naming import NodeAddresses

ADDRESSES = NodeAddresses(3)


CONTAINER = ContainerInstance(
    id="c1", name="web", pod="shop/web-1", pod_uid="u1", sandbox_id="s1", state="CONTAINER_RUNNING", attempt=0,
    created_at=1, started_at=2, finished_at=0, exit_code=0, pid=100, process_start=5000, monitor_pid=90,
    stored_hash="aaaa", served_hash="aaaa",
)  # fmt: skip
SANDBOX = SandboxInstance(
    id="s1", name="web-1", pod="shop/web-1", pod_uid="u1", state="SANDBOX_READY", attempt=0, created_at=1, pid=95,
    process_start=4900, monitor_pid=90, address="10.244.1.2",
)  # fmt: skip
BEFORE = NodeSnapshot(node="node1", containers=(CONTAINER,), sandboxes=(SANDBOX,))
