"""What somebody sees first of a rollout on a real API server: the same screens whatever is wrong, made comparable."""

import asyncio
import contextlib
import os
import re
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from click.testing import CliRunner

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.status import Condition, ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.agent_pods import PodRole
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import PODS, UPGRADES, NotFoundError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, agent_pod_name
from nodeupgrade.sources.allowlist import Allowed
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.test_rollout import remove_deleted_agents
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

GOLDEN = ROOT / "tests" / "golden" / "mistakes"
LINES, COLUMNS = 24, 80
"""The size of a terminal, and so of what is seen without scrolling."""

SECONDS = 240
ALLOWED = Allowed(paths=("/opt/kubelet",), images=("registry.example/kubelet",), pull_secrets=("registry-key",))
AGENTS = AgentPodSettings(namespace=NAMESPACE, image="registry.example/nodeupgrade:v0.9.0", allowed=ALLOWED)

IMPATIENT = Patience(retry_seconds=1)
"""An operator asks a server that answers 500 for longer before it tells anybody."""

VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "2026-01-01T00:00:00Z"),
    (re.compile(r"(?<=run )[0-9a-f]{8}-\d{14}"), "01234567-20260101000000"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d{5}"), "65535"),
    (re.compile(r"(?<=verdict )\d\.\d; \d\.\d(?= in all)"), "1.1; 1.1"),
)
"""What is different each time, and what stands for it: as long, so that lines break at the same places."""

TOOK = re.compile(r"(?<=[ (])(\d+m)?\d+s(?=[ )]|$)")
"""How long something took that has ended, in a column that is wide enough or at the end of a line."""


@dataclass
class FirstHour:
    """A rollout over one node, the operator that looks after it, and a person who looks."""

    server: ApiServer
    admin: KubeClient
    operator: Passes
    name: str  # of the rollout
    node: str = field(init=False)  # the node of the rollout

    def __post_init__(self) -> None:
        self.node = f"node-{self.name}"

    async def begins(self, *, kubelet: str = "v1.30.14", **spec: Any) -> None:
        """Add a node, and a rollout over it that nobody has looked at yet."""
        fleet = FleetSimulator(self.admin, NAMESPACE)
        await fleet.add_node(self.node, version=kubelet)
        await fleet.add_pod(f"web-on-{self.node}", self.node)
        await self.admin.create(UPGRADES, upgrade_object(self.name, **{"nodes": {"names": [self.node]}, **spec}))

    async def reports(self, reason: str) -> None:
        """Let the operator make passes until the condition Ready has a reason."""

        async def told() -> bool:
            return (await self.ready()).reason == reason

        await self._passes_until(told)

    async def is_looked_at(self) -> None:
        """Let the operator make a pass with all that is there."""
        await self.operator.reconcile(self.name)

    async def agent(self, role: PodRole = PodRole.AGENT, *, other_than: str = "") -> Json:
        """Let the operator make passes until there is a pod of the node, with another UID."""
        found, name = list[Json](), agent_pod_name(NodeName(self.node), role)

        async def there() -> bool:
            with contextlib.suppress(NotFoundError):
                found[:] = [await self.admin.get(PODS.within(NAMESPACE), name)]
            return bool(found) and found[0]["metadata"]["uid"] != other_than

        await self._passes_until(there)
        return found[0]

    async def kubelet_says(self, pod: Json, status: Json) -> None:
        """Report the status of a pod."""
        await self.admin.replace_status(PODS.within(NAMESPACE), pod["metadata"]["name"], status)

    async def _passes_until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not await reached():
                    done = await self.operator.reconcile(self.name)
                    await remove_deleted_agents(self.admin, self.server)
                    await asyncio.sleep(0 if done.changed else 0.2)
        except TimeoutError:
            raise AssertionError(f"it reports only {await self.ready()}") from None

    async def ready(self) -> Condition:
        return read_upgrade(await self.admin.get(UPGRADES, self.name)).status.condition(ConditionType.READY)

    async def screens(self, *, node: str) -> dict[str, str]:
        """Return by command line what somebody sees without scrolling; ``node`` is empty if none is concerned."""
        created = (await self.admin.get(UPGRADES, self.name))["metadata"]["creationTimestamp"]
        table = await asyncio.to_thread(self.server.kubectl, "get", "nu", self.name)
        screens = {f"kubectl get nu {self.name}": table}
        for line in (f"status {self.name}", *([f"explain-node {node}"] if node else ())):
            screens[f"nodeupgrade {line}"] = await asyncio.to_thread(self._run, line, datetime.fromisoformat(created))
        message = textwrap.fill((await self.ready()).message, COLUMNS, break_on_hyphens=False)
        screens[f"kubectl describe nu {self.name}  # the message of condition Ready"] = message
        return {command: first_screen(screen) for command, screen in screens.items()}

    def _run(self, line: str, now: datetime) -> str:
        """Run a command at a moment, so that no age depends on how quick this machine is."""
        arguments = [*line.split(), "--kubeconfig", str(self.server.kubeconfig())]
        result = CliRunner().invoke(main, arguments, obj=World(now=lambda: now), env={"COLUMNS": str(COLUMNS)})
        assert result.exit_code == 0, result.output
        return result.output


@asynccontextmanager
async def first_hour(server: ApiServer, admin: KubeClient, name: str) -> AsyncIterator[FirstHour]:
    """Begin one, and leave nothing behind that another one would find."""
    async with KubeClient.open(server.kubeconfig("operator"), patience=IMPATIENT) as kube:
        hour = FirstHour(server, admin, Passes(kube, AGENTS), name)
        try:
            yield hour
        finally:
            await asyncio.to_thread(_clear_away, server, NodeName(hour.node))


def _clear_away(server: ApiServer, node: NodeName) -> None:
    gone = "--ignore-not-found", "--force", "--grace-period=0", "--wait=false"
    for role in PodRole:
        server.kubectl("delete", "pod", f"--namespace={NAMESPACE}", agent_pod_name(node, role), *gone)
    for kind in ("nut", "node"):
        server.kubectl("delete", kind, node, "--ignore-not-found")


def first_screen(printed: str) -> str:
    """Return the lines that are seen without scrolling, each at most as wide as the screen."""
    lines = [line.rstrip() for line in printed.splitlines()][:LINES]
    assert max(map(len, lines)) <= COLUMNS, printed
    for pattern, instead in VARYING:
        lines = [pattern.sub(instead, line) for line in lines]
    return "".join(f"{TOOK.sub(_at_once, line).rstrip()}\n" for line in lines)


def _at_once(took: re.Match[str]) -> str:
    """Write that it took no time, in as many cells if others follow."""
    return "0s".ljust(len(took[0])) if took.string[took.end() :].startswith(" ") else "0s"


def flowing(screen: str) -> str:
    """Return a screen as one line, so that words are found wherever lines break."""
    return " ".join(screen.split())


def check(golden: str, screens: dict[str, str]) -> None:
    """Compare with a golden file. To accept new output: UPDATE_GOLDEN=1."""
    file, printed = GOLDEN / golden, "\n".join(f"$ {command}\n{screen}" for command, screen in screens.items())
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(printed, encoding="utf-8")
    assert printed == file.read_text(encoding="utf-8")
