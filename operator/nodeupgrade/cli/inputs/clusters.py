"""Commands that may be for several clusters: contexts of a kubeconfig, by name and by pattern, all asked at once."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

import click

from nodeupgrade.cli.inputs.cluster import ClusterConnection, command_error, connection_options, contexts
from nodeupgrade.cli.inputs.cluster_objects import NAMED
from nodeupgrade.cli.program import CannotError, NoClusterAnswerError
from nodeupgrade.cluster.kube_api import ReviewingKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.findings.finding import named

T = TypeVar("T")

CLUSTERS_AT_ONCE = 20
"""Each may take a process of kubectl, and one that logs in."""

REQUEST_TIMES = 2
"""How many timeouts of a request a cluster gets in all: to log in, and to answer."""

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """What one cluster answered; without a value, why there is none."""

    context: str
    value: T | None = None
    error: CannotError | None = None

    @property
    def silent(self) -> bool:
        """Whether the cluster did not answer, or denies access."""
        return isinstance(self.error, NoClusterAnswerError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Several clusters of one kubeconfig."""

    connection: ClusterConnection  # what their connections have in common
    contexts: tuple[str, ...]

    async def ask(
        self,
        function: Callable[[str, ReviewingKube], Coroutine[Any, Any, T]],
        answered: Callable[[Answer[T]], None] = lambda _answer: None,
        *,
        waits: float = 0.0,
    ) -> tuple[Answer[T], ...]:
        """Call a function for every cluster; whatever happens with one, the others are asked.

        Args:
            function: Takes the context and its connection.
            answered: Called as soon as a cluster has answered, or its time is over.
            waits: How long the function may wait for things to happen, in seconds.
        """
        at_once = asyncio.Semaphore(CLUSTERS_AT_ONCE)

        async def one(context: str) -> Answer[T]:
            async with at_once:
                try:
                    answer = Answer(context=context, value=await self._connected(context, function, waits))
                except CannotError as error:
                    answer = Answer(context=context, error=error)
                except Exception as error:  # noqa: BLE001 - an answer that nobody foresaw must not stop the others
                    problem = f"its answer cannot be understood ({type(error).__name__}: {error})"
                    answer = Answer(context=context, error=NoClusterAnswerError(f"cannot use {context}: {problem}"))
            answered(answer)
            return answer

        return tuple(await asyncio.gather(*map(one, self.contexts)))

    async def _connected(
        self, context: str, function: Callable[[str, ReviewingKube], Coroutine[Any, Any, T]], waits: float
    ) -> T:
        of = self.connection
        seconds = REQUEST_TIMES * of.request_seconds
        try:
            async with (
                asyncio.timeout(seconds + waits),
                of.open(context) as kube,
            ):
                return await function(context, kube)
        except TimeoutError as error:
            problem = f"there is no answer within {seconds:g} s"
            raise NoClusterAnswerError(
                f"cannot use {context} because {problem}; check that kubectl reaches the cluster, then try again"
            ) from error
        except NodeUpgradeError as error:
            raise command_error(error) from error


def on_clusters(
    several: Callable[..., Coroutine[Any, Any, int]],
) -> Callable[[Callable[..., Coroutine[Any, Any, int]]], Callable[..., None]]:
    """Call a coroutine as ``on_cluster`` does; or ``several`` with Clusters, if --context names more than one."""

    def decorate(function: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., None]:
        @functools.wraps(function)
        def connected(where: ClusterConnection | Clusters, **given: Any) -> int:
            if isinstance(where, Clusters):
                return asyncio.run(several(where, **given))
            return where.run(lambda world, kube: function(world, kube, **given))

        return connection_options(_contexts_option, _chosen, connected)

    return decorate


_contexts_option = click.option(
    "--context",
    multiple=True,
    shell_complete=contexts,
    help="Context in the kubeconfig file; several clusters with a pattern such as 'prod-*', or given again.  "
    "[default: its current one]",
)


def _chosen(connection: ClusterConnection, given: tuple[str, ...]) -> ClusterConnection | Clusters:
    """Return one connection for one name, as all commands have it; else every context that is meant."""
    if not given:
        return connection
    if len(given) == 1 and _WILDCARDS.isdisjoint(given[0]):
        return replace(connection, context=given[0])
    try:
        known = connection.world.contexts(connection.kubeconfig)
    except NodeUpgradeError as error:
        raise command_error(error) from error
    if len(given) == 1 and given[0] in known:
        return replace(connection, context=given[0])
    chosen = [name for each in given for name in _meant(each, known)]
    return Clusters(connection=connection, contexts=tuple(dict.fromkeys(chosen)))


def _meant(given: str, known: tuple[str, ...]) -> list[str]:
    found = [given] if given in known else [name for name in known if fnmatchcase(name, given)]
    if not found:
        there = f"there are: {named(known, NAMED)}" if known else "the kubeconfig has none"
        raise click.BadParameter(f"no context is {given}; {there}", param_hint="'--context'")
    return found
