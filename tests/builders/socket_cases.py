"""Provides containers that use the runtime's sockets."""

from dataclasses import replace

from nodeupgrade.api.run_settings import SocketMountPolicy
from nodeupgrade.api.values import PodUid
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.checks.hashes import Proof
from nodeupgrade.node.plan.hash_rewriting import Rewriting
from nodeupgrade.node.plan.plan import PlannedContainer
from nodeupgrade.node.runtimes.runtime import RuntimeClients
from tests.builders.planned_container import PLANNED
from tests.builders.sound import facts

SOCKET = "/run/containerd/containerd.sock"
MOUNTS = replace(PLANNED, sockets=(SOCKET, f"{SOCKET}.ttrpc"))
FOLLOWS = replace(PLANNED, connected=True, restarts_itself=True)


AGENT = replace(PLANNED.pod, uid=PodUid("agent"))
REWRITTEN = replace(PLANNED, pod=AGENT, after=replace(PLANNED.after, container=HashValue("rewritten")))


def using(
    *containers: PlannedContainer, policy: SocketMountPolicy = SocketMountPolicy.WARN, unknown: str = ""
) -> Proof:
    """Containers of a node whose runtime is restarted, since a hash of the agent is rewritten."""
    seen = facts(clients=RuntimeClients(unknown=unknown))
    verify = replace(seen.spec.verify, socket_mounts=policy)
    return Proof(
        node=replace(seen, spec=replace(seen.spec, verify=verify)),
        rewriting=Rewriting(containers=(*containers, REWRITTEN), findings=()),
        unread=(),
        unpinned=(),
        agents=frozenset({AGENT.uid}),
    )
