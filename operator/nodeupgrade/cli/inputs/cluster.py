"""Commands that use a cluster: their options, their connection, and how API errors are reported."""

import asyncio
import functools
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName, parse_duration
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.program import CannotError, NoClusterAnswerError
from nodeupgrade.domain.catalogue import read_upgrade
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.guard_parameters import INSTALLED_IN, GuardWriter
from nodeupgrade.engine.rollout.reader import LiveFleet
from nodeupgrade.engine.rollout.snapshots import gather
from nodeupgrade.ports.kube import (
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    ConflictError,
    ForbiddenError,
    KubeApi,
    NoClusterError,
    NotFoundError,
    Resource,
    ReviewingKube,
    UnavailableError,
)

T = TypeVar("T")

Connect = Callable[[Path | None, str | None, float], AbstractAsyncContextManager[ReviewingKube]]


def _connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float
) -> AbstractAsyncContextManager[ReviewingKube]:
    # Imported late: the Kubernetes client takes longer to load than most commands take to run.
    connect = cast("Connect", importlib.import_module("nodeupgrade.wiring.cluster").connect)
    return connect(kubeconfig, context, request_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world as commands see it; tests pass their own as ``obj`` of the click context."""

    connect: Connect = _connect
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)


class Seconds(click.ParamType[float]):
    """A duration such as 90s or 1h30m, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it; a default is a number of seconds already."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value).total_seconds()
        except ValueError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """How to connect to the cluster; nothing connects before ``run``."""

    world: World
    kubeconfig: Path | None
    context: str | None
    request_seconds: float

    def run(self, function: Callable[[World, ReviewingKube], Coroutine[Any, Any, T]]) -> T:
        """Connect, run a function, and disconnect.

        Raises:
            CannotError: anything failed; the message says what to do.
        """

        async def connected() -> T:
            async with self.world.connect(self.kubeconfig, self.context, self.request_seconds) as kube:
                return await function(self.world, kube)

        try:
            return asyncio.run(connected())
        except NodeUpgradeError as error:
            raise command_error(error) from error


def cluster_options(function: Callable[..., int]) -> Callable[..., None]:
    """Add the options for connecting to a cluster, and pass a ClusterConnection as the function's first argument.

    The function returns the exit code.
    """

    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        envvar="KUBECONFIG",
        help="File that says how to reach the cluster.  [default: $KUBECONFIG, ~/.kube/config]",
    )
    @click.option("--context", help="Context within the kubeconfig.  [default: its current one]")
    @click.option(
        "--request-timeout",
        type=Seconds(),
        default="15s",
        show_default=True,
        help="How long one request to the API server may take.",
    )
    @functools.wraps(function)
    def called(*, kubeconfig: Path | None, context: str | None, request_timeout: float, **given: Any) -> None:
        ctx = click.get_current_context()
        world = ctx.obj if isinstance(ctx.obj, World) else World()
        connection = ClusterConnection(
            world=world, kubeconfig=kubeconfig, context=context, request_seconds=request_timeout
        )
        ctx.exit(function(connection, **given))

    return called


def on_cluster(function: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., None]:
    """Call a coroutine with the world and a connection before its own arguments, and add the options for connecting."""

    @functools.wraps(function)
    def connected(connection: ClusterConnection, **given: Any) -> int:
        return connection.run(lambda world, kube: function(world, kube, **given))

    return cluster_options(connected)


def command_error(error: NodeUpgradeError) -> CannotError:
    """Turn an API error into one that says what to do."""
    match error:
        case NoClusterError():
            return NoClusterAnswerError(f"{error}; give --kubeconfig and --context, or set KUBECONFIG")
        case UnavailableError():
            return NoClusterAnswerError(f"{error}; look whether kubectl reaches the cluster, then try again")
        case ForbiddenError():
            return NoClusterAnswerError(f"{error}; ask a cluster administrator for this permission")
        case NotFoundError():
            return NoClusterAnswerError(f"{error}; look whether nodeupgrade is installed in this cluster")
        case ConflictError():
            return CannotError(f"{error}; try again")
        case _:
            return CannotError(str(error))


# Read a fleet as the planner needs it. Read-only.

OPERATOR_LABELS = {"app.kubernetes.io/name": "nodeupgrade-operator"}
"""Labels of the operator's pod, as in the manifests."""

NOT_CREATED = "not-created"
"""UID of a NodeUpgrade that exists only in a file: no task and no cordon can belong to it."""


async def read_fleet(kube: KubeApi, upgrade: Upgrade) -> FleetSnapshot:
    """Read what the operator reads: nodes, tasks, other rollouts, whether the readiness guard is available. No pods.

    Raises:
        NoClusterAnswerError: the cluster does not have the CRDs.
    """
    source = LiveFleet(kube, namespace=None)
    try:
        guard, own = GuardWriter(kube, INSTALLED_IN), await operator_node(kube)
        fleet = await gather(kube, upgrade, source, guard=guard, operator_node=own)
    except NotFoundError:
        raise cluster_objects.not_installed(UPGRADES) from None
    return replace(fleet, active_upgrades=fleet.active_upgrades | {upgrade.uid})


async def operator_node(kube: KubeApi) -> NodeName | None:
    """Find the node that the operator runs on by its pod; None if that is unknown."""
    try:
        pods = await kube.list(PODS.within(INSTALLED_IN), labels=OPERATOR_LABELS)
    except ForbiddenError:
        return None
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    running = [pod for pod in staying if (pod.get("status") or {}).get("phase") == "Running"]
    nodes = {NodeName(pod["spec"]["nodeName"]) for pod in running}
    return nodes.pop() if len(nodes) == 1 else None


def as_if_applied(document: Json, live: Json | None, now: datetime) -> Upgrade:
    """Return the NodeUpgrade as it would be after an apply: a live object keeps its identity and status."""
    written = document["metadata"]
    kept = {} if live is None else live["metadata"]
    annotations = {**(kept.get("annotations") or {}), **(written.get("annotations") or {})}
    metadata = {
        "uid": NOT_CREATED,
        "resourceVersion": "",
        "creationTimestamp": timestamp(now),
        **kept,
        "name": written["name"],
        "annotations": annotations,
    }
    return read_upgrade({**document, "metadata": metadata, "status": (live or {}).get("status", {})})


# Names for shell completion, read from the cluster; none if it does not answer at once.

SECONDS = 2.0
"""How long a person waits for a completion."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _names(resource: Resource) -> Complete:
    def complete(ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
        world = ctx.obj if isinstance(ctx.obj, World) else World()
        config, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
        try:
            found = asyncio.run(_read(world, None if config is None else Path(config), context, resource))
        except (NodeUpgradeError, TimeoutError, OSError):
            return []
        return [CompletionItem(name) for name in found if name.startswith(begun) and name.isprintable()]

    return complete


async def _read(world: World, kubeconfig: Path | None, context: str | None, resource: Resource) -> list[str]:
    async with asyncio.timeout(SECONDS), world.connect(kubeconfig, context, SECONDS) as kube:
        return [body["metadata"]["name"] for body in await kube.list(resource)]


rollouts = _names(UPGRADES)
nodes = _names(NODES)
claimed_nodes = _names(TASKS)
