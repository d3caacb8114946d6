"""Read our objects in a cluster for people: an error about a missing object lists those that exist.

Where several are read, those that this version cannot read are left out, and a warning names them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.task.object import UPGRADE_LABEL, Task, parse_task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.values import Verdict
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.program import CannotError, NoClusterAnswerError, warn
from nodeupgrade.cluster.kube_api import (
    EVENTS,
    NODES,
    TASKS,
    UPGRADES,
    ForbiddenError,
    KubeApi,
    NotFoundError,
    Resource,
)
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.findings.finding import named

NAMED = 10
"""How many names an error lists at most."""

EVENT_NAMESPACE = "default"
"""Where Kubernetes keeps events about cluster-scoped objects."""

READS_AT_ONCE = 10

_REMEDY = "use the version of nodeupgrade that the cluster runs"

_UNREADABLE = (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError)
"""What parsing one may raise, as the caches of the operator take it."""

T = TypeVar("T")


class UnreadableError(CannotError):
    """An object exists, and this version cannot read it."""

    def __init__(self, kind: str, body: Json, problem: str) -> None:
        self.body = body
        self.problem = problem
        name = body["metadata"]["name"]
        super().__init__(f"cannot understand {kind} {name} because {problem}; {_REMEDY}")


async def upgrades(kube: KubeApi) -> list[Upgrade]:
    """List all NodeUpgrades, sorted by name; for answers that would not be true if one were left out."""
    return [_upgrade(body) for body in await _listed(kube, UPGRADES)]


async def readable_upgrades(kube: KubeApi) -> list[Upgrade]:
    """List the NodeUpgrades that can be read, sorted by name."""
    found, unreadable = _readable(read_upgrade, await _listed(kube, UPGRADES))
    warn_of(unreadable, UPGRADES)
    return found


async def unfinished(kube: KubeApi) -> list[str]:
    """List the names of the NodeUpgrades that have not ended, sorted, also of those that cannot be read."""
    listed = await _listed(kube, UPGRADES)
    return sorted(body["metadata"]["name"] for body in listed if not (body.get("status") or {}).get("completedAt"))


async def repaired(kube: KubeApi, upgrade: Upgrade) -> int:
    """Count the nodes that a retry takes for repaired after a failed rollback; 0 if the user may not see them."""
    broken = [each for each in upgrade.status.failures if each.outcome is Verdict.ROLLBACK_FAILED]
    try:
        return sum([await _is_repaired(kube, upgrade, each) for each in broken])
    except ForbiddenError:
        return 0


async def _is_repaired(kube: KubeApi, upgrade: Upgrade, failure: NodeFailure) -> bool:
    ours = (upgrade.uid, failure.uid)
    try:
        found = await task(kube, failure.node)
        if found is not None and (found.spec.upgrade_ref.uid, stored_uid(found.spec.node_uid)) == ours:
            return False
        view = view_node(await kube.get(NODES, failure.node))
    except NotFoundError:
        return True
    except (UnreadableError, *_UNREADABLE):  # it decides about a sentence of the answer, and not about the retry
        return False
    return not (view.unschedulable and (view.cordoned_by, stored_uid(view.uid)) == ours)


async def upgrade(kube: KubeApi, name: str) -> Upgrade:
    """Read one NodeUpgrade; if it does not exist, the error lists those that do."""
    return _upgrade(await _existing(kube, UPGRADES, name))


async def bodies(kube: KubeApi, names: Iterable[str]) -> dict[str, Json]:
    """Read those of the named NodeUpgrades that exist, unparsed."""
    found: dict[str, Json] = {}
    for name in sorted(names):
        try:
            found[name] = await kube.get(UPGRADES, name)
        except NotFoundError:
            continue
    return found


async def node(kube: KubeApi, name: str) -> Json:
    """Read one Node; if it does not exist, the error lists those that do."""
    return await _existing(kube, NODES, name)


async def task(kube: KubeApi, name: str) -> Task | None:
    """Read the task of a node; None if it has none."""
    try:
        return _task(await kube.get(TASKS, name))
    except NotFoundError:
        return None


async def required_task(kube: KubeApi, name: str) -> Task:
    """Read the task of a node; if it has none, the error lists the nodes that have one."""
    return _task(await _existing(kube, TASKS, name))


async def tasks_named(kube: KubeApi, names: Iterable[str]) -> dict[str, Task]:
    """Read a few tasks one by one, which spares the API server a list of all of them."""
    at_once = asyncio.Semaphore(READS_AT_ONCE)

    async def read(name: str) -> Json | None:
        async with at_once:
            try:
                return await kube.get(TASKS, name)
            except NotFoundError:
                return None

    bodies = await asyncio.gather(*(read(name) for name in names))
    found, unreadable = _readable(parse_task, filter(None, bodies))
    warn_of(unreadable, TASKS)
    return {each.name: each for each in found}


async def tasks(kube: KubeApi, *, rollout: str | None = None) -> list[Task]:
    """List all tasks that can be read, or those of one rollout."""
    found, unreadable = await readable_tasks(kube, rollout=rollout)
    warn_of(unreadable, TASKS)
    return found


async def readable_tasks(kube: KubeApi, *, rollout: str | None = None) -> tuple[list[Task], dict[str, str]]:
    """List all tasks that can be read, or those of one rollout, and say by node what is wrong with the others."""
    return _readable(parse_task, await _listed(kube, TASKS, {UPGRADE_LABEL: rollout} if rollout else None))


async def unfinished_runs(kube: KubeApi) -> list[Task]:
    """List the tasks whose run is not over; page by page, since those of a large fleet would fill a small memory."""
    try:
        return [
            each
            async for page in kube.pages(TASKS)
            for each in map(_task, page.items)
            if each.open and not each.reported.phase.terminal
        ]
    except NotFoundError:
        raise not_installed(TASKS) from None


def warn_of(unreadable: Mapping[str, str], resource: Resource) -> None:
    """Name the objects that are left out, and say what is wrong with the first."""
    if not unreadable:
        return
    names = sorted(unreadable)
    one, several = f"{resource.kind} {names[0]}", f"{len(names)} {resource.kind}s ({named(names, NAMED)})"
    problem = unreadable[names[0]]
    warn(f"cannot understand {several if len(names) > 1 else one} because {problem}; left out; {_REMEDY}")


async def node_names(kube: KubeApi) -> frozenset[str]:
    """List the names of all nodes."""
    return frozenset(str(body["metadata"]["name"]) for body in await kube.list(NODES))


async def events_about(kube: KubeApi, kind: str, name: str) -> list[Json]:
    """List the events about one of our objects or a Node."""
    about = {"involvedObject.kind": kind, "involvedObject.name": name}
    return await kube.list(EVENTS.within(EVENT_NAMESPACE), fields=about)


async def _existing(kube: KubeApi, resource: Resource, name: str) -> Json:
    try:
        return await kube.get(resource, name)
    except NotFoundError:
        kind = "node" if resource is NODES else resource.kind
        names = sorted(body["metadata"]["name"] for body in await _listed(kube, resource))
    if not names:
        raise CannotError(f"cannot find {kind} {name} because the cluster has no {kind}; check --context")
    raise CannotError(f"cannot find {kind} {name} because it does not exist; there are: {named(names, NAMED)}")


async def _listed(kube: KubeApi, resource: Resource, labels: Mapping[str, str] | None = None) -> list[Json]:
    try:
        return await kube.list(resource, labels=labels)
    except NotFoundError:
        raise not_installed(resource) from None


def not_installed(resource: Resource) -> NoClusterAnswerError:
    """Return the error for a cluster without our CRDs."""
    return NoClusterAnswerError(
        f"cannot list {resource.plural} because the cluster does not know them; "
        "install nodeupgrade there (kubectl apply -k manifests), or choose another --context"
    )


def _readable(parse: Callable[[Json], T], bodies: Iterable[Json]) -> tuple[list[T], dict[str, str]]:
    """Return the objects that can be read, and by name what is wrong with the others."""
    found, unreadable = list[T](), dict[str, str]()
    for body in bodies:
        try:
            found.append(parse(body))
        except _UNREADABLE as error:
            unreadable[body["metadata"]["name"]] = _problem(error)
    return found, unreadable


def _parsed(parse: Callable[[Json], T], kind: str, body: Json) -> T:
    try:
        return parse(body)
    except _UNREADABLE as error:
        raise UnreadableError(kind, body, _problem(error)) from error


def _problem(error: Exception) -> str:
    if isinstance(error, MalformedObjectError):
        return f"{error.path}: {error.problem}"
    return str(error) or type(error).__name__


_upgrade = partial(_parsed, read_upgrade, UPGRADES.kind)
_task = partial(_parsed, parse_task, TASKS.kind)
