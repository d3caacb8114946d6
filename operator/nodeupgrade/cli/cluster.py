"""Commands that reach a cluster: their options, their connection, and how its errors are told."""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click

from nodeupgrade.cli.program import CannotError, NoClusterAnswerError
from nodeupgrade.domain.durations import parse_duration
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.ports.kube import (
    ConflictError,
    ForbiddenError,
    KubeApi,
    NoClusterError,
    NotFoundError,
    UnavailableError,
)

Connect = Callable[[Path | None, str | None, float], AbstractAsyncContextManager[KubeApi]]


def _connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float
) -> AbstractAsyncContextManager[KubeApi]:
    # Imported when it is needed: the Kubernetes client takes longer to load than most commands take to run.
    connect = cast("Connect", importlib.import_module("nodeupgrade.wiring.cli").connect)
    return connect(kubeconfig, context, request_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What commands reach of the world; tests bring one of their own as ``obj`` of the click context."""

    connect: Connect = _connect
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)


class Seconds(click.ParamType[float]):
    """A duration such as 90s or 1h30m, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it; a default comes as seconds already."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value).total_seconds()
        except ValueError as error:
            self.fail(str(error), param, ctx)


def on_cluster(function: Callable[..., Awaitable[int | None]]) -> Callable[..., None]:
    """Give a function a connection, the options it needs, and errors that a person can act on.

    The function gets the world and the connection before its own arguments; what it returns is the exit code.
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

        async def run() -> int | None:
            async with world.connect(kubeconfig, context, request_timeout) as kube:
                return await function(world, kube, **given)

        try:
            code = asyncio.run(run())
        except NodeUpgradeError as error:
            raise told(error) from error
        ctx.exit(code or 0)

    return called


def told(error: NodeUpgradeError) -> CannotError:
    """Say what to do about an error of the API server."""
    match error:
        case NoClusterError():
            return NoClusterAnswerError(f"{error}; give --kubeconfig and --context, or set KUBECONFIG")
        case UnavailableError():
            return NoClusterAnswerError(f"{error}; look whether kubectl reaches the cluster, then try again")
        case ForbiddenError():
            return NoClusterAnswerError(f"{error}; ask for the permissions listed in docs/cli.md")
        case NotFoundError():
            return NoClusterAnswerError(f"{error}; look whether nodeupgrade is installed in this cluster")
        case ConflictError():
            return CannotError(f"{error}; try again")
        case _:
            return CannotError(str(error))
