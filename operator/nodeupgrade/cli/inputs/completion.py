"""Names and versions for shell completion; names are read from the cluster, none if it does not answer at once."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.changes import waves as waves_of
from nodeupgrade.cli.inputs.cluster import World, begun_with
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, KubeApi, Resource
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.kubelethash import known_kubelets

SECONDS = 2.0
"""How long a person waits for a completion."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _names(read: Callable[[KubeApi, click.Context], Coroutine[Any, Any, list[str]]]) -> Complete:
    def complete(ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
        world = ctx.obj if isinstance(ctx.obj, World) else World()
        config, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
        if isinstance(context, tuple):  # the first of several stands for all
            context = next(iter(context), None)
        try:
            found = asyncio.run(asked(world, None if config is None else Path(config), context, ctx))
        except (NodeUpgradeError, TimeoutError, OSError):
            return []
        return begun_with(begun, found)

    async def asked(world: World, kubeconfig: Path | None, context: str | None, ctx: click.Context) -> list[str]:
        user = ctx.params.get("user")
        async with asyncio.timeout(SECONDS), world.connect(kubeconfig, context, SECONDS, user) as kube:
            return await read(kube, ctx)

    return complete


def _objects(resource: Resource) -> Complete:
    async def read(kube: KubeApi, _ctx: click.Context) -> list[str]:
        return [body["metadata"]["name"] for body in await kube.list(resource)]

    return _names(read)


async def _waves(kube: KubeApi, ctx: click.Context) -> list[str]:
    return waves_of(read_upgrade(await kube.get(UPGRADES, ctx.params["name"])))


def minor_versions(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a minor version whose hashes are known."""
    return begun_with(begun, (known.series for known in known_kubelets()))


rollouts = _objects(UPGRADES)
nodes = _objects(NODES)
claimed_nodes = _objects(TASKS)
waves = _names(_waves)
