"""Names for shell completion, read from the cluster; none if it does not answer at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, Resource
from nodeupgrade.errors import NodeUpgradeError

SECONDS = 2.0
"""How long a person waits for a completion."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _names(resource: Resource) -> Complete:
    def complete(ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
        world = ctx.obj if isinstance(ctx.obj, World) else World()
        config, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
        if isinstance(context, tuple):  # the first of several stands for all
            context = next(iter(context), None)
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
