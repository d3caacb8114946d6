"""Commands that use a cluster: their options, their connection, and how API errors are reported."""

import asyncio
import functools
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from nodeupgrade.api.duration import parse_duration
from nodeupgrade.cli.program import CannotError, NoClusterAnswerError, Once
from nodeupgrade.cluster.kube_api import (
    ConflictError,
    ForbiddenError,
    NoClusterError,
    NoCredentialsError,
    NotFoundError,
    ReviewingKube,
    UnauthenticatedError,
    UnavailableError,
)
from nodeupgrade.cluster.kubeconfig import context_names
from nodeupgrade.errors import NodeUpgradeError

T = TypeVar("T")
Called = Callable[..., None]

_ANONYMOUS = "system:anonymous"
"""The user that an API server takes a client without credentials for."""

Connect = Callable[[Path | None, str | None, float, str | None], AbstractAsyncContextManager[ReviewingKube]]


def _connect(
    kubeconfig: Path | None, context: str | None, request_seconds: float, user: str | None
) -> AbstractAsyncContextManager[ReviewingKube]:
    # Imported late: the Kubernetes client takes longer to load than most commands take to run.
    connect = cast("Connect", importlib.import_module("nodeupgrade.cluster.connect").connect)
    return connect(kubeconfig, context, request_seconds, user)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world as commands see it; tests pass their own as ``obj`` of the click context."""

    connect: Connect = _connect
    contexts: Callable[[Path | None], tuple[str, ...]] = context_names  # of a kubeconfig
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
    user: str | None = None  # to act as; None for the login's own

    def open(self, context: str | None) -> AbstractAsyncContextManager[ReviewingKube]:
        """Connect by a context of the kubeconfig; None for its current one."""
        return self.world.connect(self.kubeconfig, context, self.request_seconds, self.user)

    def run(self, function: Callable[[World, ReviewingKube], Coroutine[Any, Any, T]]) -> T:
        """Connect, run a function, and disconnect.

        Raises:
            CannotError: anything failed; the message says what to do.
        """

        async def connected() -> T:
            async with self.open(self.context) as kube:
                return await function(self.world, kube)

        try:
            return asyncio.run(connected())
        except NodeUpgradeError as error:
            raise command_error(error) from error


def begun_with(begun: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return the names that complete what is typed."""
    return [CompletionItem(name) for name in names if name.startswith(begun) and name.isprintable()]


def contexts(ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a context of the kubeconfig."""
    world, config = ctx.obj if isinstance(ctx.obj, World) else World(), ctx.params.get("kubeconfig")
    try:
        return begun_with(begun, world.contexts(None if config is None else Path(config)))
    except (NodeUpgradeError, OSError):
        return []


_kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    envvar="KUBECONFIG",
    help="Path to the kubeconfig file.  [default: $KUBECONFIG, ~/.kube/config]",
)
_timeout_option = click.option(
    "--request-timeout",
    type=Seconds(),
    default="15s",
    show_default=True,
    help="Timeout of one request to the API server.",
)
_user_option = click.option(
    "--as", "user", cls=Once, help="User to impersonate, as with kubectl.  [default: that of the kubeconfig]"
)
_context_option = click.option(
    "--context", cls=Once, shell_complete=contexts, help="Context in the kubeconfig file.  [default: its current one]"
)


def cluster_options(function: Callable[..., int]) -> Callable[..., None]:
    """Add the options for connecting to a cluster, and pass a ClusterConnection as the function's first argument.

    The function returns the exit code.
    """
    return connection_options(
        _context_option, lambda connection, context: replace(connection, context=context), function
    )


def connection_options(
    context_option: Callable[[Called], Called],
    choose: Callable[[ClusterConnection, Any], object],
    function: Callable[..., int],
) -> Callable[..., None]:
    """Add the options for connecting, and pass what is chosen by --context as the function's first argument."""

    @_kubeconfig_option
    @context_option
    @_user_option
    @_timeout_option
    @functools.wraps(function)
    def called(
        *, kubeconfig: Path | None, context: Any, user: str | None, request_timeout: float, **given: Any
    ) -> None:
        ctx = click.get_current_context()
        world = ctx.obj if isinstance(ctx.obj, World) else World()
        connection = ClusterConnection(
            world=world, kubeconfig=kubeconfig, context=None, request_seconds=request_timeout, user=user
        )
        ctx.exit(function(choose(connection, context), **given))

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
        case NoCredentialsError():
            return NoClusterAnswerError(f"{error}; log in again, or choose another --context")
        case UnauthenticatedError():
            return NoClusterAnswerError(
                f"{error}; log in again: the token or certificate has expired, or belongs to another cluster"
            )
        case ForbiddenError() if _ANONYMOUS in str(error):
            return NoClusterAnswerError(
                f"{error}; the kubeconfig has no credentials: log in, or choose another --context"
            )
        case NoClusterError():
            return NoClusterAnswerError(f"{error}; give --kubeconfig and --context, or set KUBECONFIG")
        case UnavailableError():
            return NoClusterAnswerError(f"{error}; check that kubectl reaches the cluster, then try again")
        case ForbiddenError():
            return NoClusterAnswerError(f"{error}; ask a cluster administrator for this permission")
        case NotFoundError():
            return NoClusterAnswerError(f"{error}; check that nodeupgrade is installed in this cluster")
        case ConflictError():
            return CannotError(f"{error}; try again")
        case _:
            return CannotError(str(error))
