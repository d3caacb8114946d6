"""`nodeupgrade check`: whether an installation could carry out a rollout."""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

import click

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.api.wording import counted, with_remedy
from nodeupgrade.cli.console import Text, show
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import World, on_cluster
from nodeupgrade.cli.inputs.completion import nodes
from nodeupgrade.cli.inputs.fleet import OPERATOR_LABELS, guard_is_hidden
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, NoClusterAnswerError, command
from nodeupgrade.cli.screens.formatting import BAD, FAINT, GOOD, Columns
from nodeupgrade.cluster.kube_api import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    FENCE,
    LEASES,
    NODE_GUARD,
    NODES,
    PODS,
    READINESS_GUARD,
    TASKS,
    UPGRADES,
    ConflictError,
    ForbiddenError,
    KubeApi,
    NotFoundError,
    RejectedError,
    ReviewingKube,
)
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.cluster.pods import container_statuses
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, agent_pod, operator_image
from nodeupgrade.fleet.guard import requirement
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN, GuardWriter
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME
from nodeupgrade.fleet.leadership.election import DURATION, RETRY, LeaseRecord
from nodeupgrade.fleet.leadership.lease import read
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.text import known_time

DEPLOYMENT = "nodeupgrade-operator"
FOUR_EYES = "four-eyes.nodeupgrade.dev"
POLICIES = {
    READINESS_GUARD: "manifests/readiness-guard.yaml",
    NODE_GUARD: "manifests/readiness-guard.yaml",
    FENCE: "manifests/operator-fence.yaml",
    "agent-identity.nodeupgrade.dev": "manifests/agent-identity.yaml",
    FOUR_EYES: "overlays/with-four-eyes/four-eyes.yaml",
}
"""The policies that the API server may have, each with the file that has its binding too."""
OPTIONAL = frozenset({FOUR_EYES})
"""Those that are not installed by default."""

_NEEDED = (("list", UPGRADES), ("list", TASKS), ("list", NODES), ("list", PODS), ("list", EVENTS))
"""What the commands that only look need."""

_STARTING = frozenset({"", "PodInitializing", "ContainerCreating"})


class State(StrEnum):
    """The result of a check; UNKNOWN is no problem of the installation."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


T = TypeVar("T")
Found: TypeAlias = tuple[State, str]
"""What was found and a message; if something is wrong, the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    subject: str
    state: State
    message: str


async def examine(world: World, kube: ReviewingKube, node: str | None) -> list[Line]:
    """Look at everything; ``node`` is the one on which an agent pod is tried."""
    return [
        Line("objects", *await _objects(kube)),
        Line("permissions", *await _rights(kube)),
        Line("operator", *await _operator(world, kube)),
        Line("policies", *await _policies(kube)),
        Line("agent pod", *await _agent(kube, node)),
    ]


async def _in_flight(kube: KubeApi) -> Found:
    """Say what has to end before the operator may go: runs with a slot, and those whose rollout was abandoned."""
    rollouts, tasks = (
        await _served(cluster_objects.upgrades(kube)),
        await _served(cluster_objects.unfinished_runs(kube)),
    )
    flying = {node: each.name for each in rollouts for node in each.status.flying}
    known = {each.uid for each in rollouts}
    going = [each for each in tasks if each.name not in flying]
    flying |= {each.name: each.spec.upgrade_ref.name for each in going}
    if not flying:
        return State.OK, f"none; {counted(len(rollouts), 'NodeUpgrade')} in all"
    first, name = next(iter(flying.items()))
    more = len(flying) - 1
    others = f" and {counted(more, 'other node')}" if more else ""
    if any(each.name == first and each.spec.upgrade_ref.uid not in known for each in going):
        what = f"{first} of NodeUpgrade {name} (gone){others}: without the operator it would stay cordoned"
        remedy = f"wait until its run is over (kubectl nodeupgrade evidence {first})"
        return State.PROBLEM, f"{what}; {remedy}, or uncordon it and delete its NodeUpgradeTask"
    what = f"{first} of NodeUpgrade {name}{others}: without the operator their runs would not finish"
    return State.PROBLEM, f"{what}; wait, or roll them back: kubectl nodeupgrade abort {name}"


async def _served(listed: Awaitable[list[T]]) -> list[T]:
    """Return the objects; none if their CustomResourceDefinition is gone, and they with it."""
    try:
        return await listed
    except NoClusterAnswerError:
        return []


async def _objects(kube: KubeApi) -> Found:
    for resource in (UPGRADES, TASKS):
        try:
            await kube.list(resource, fields={"metadata.name": "none"})
        except NotFoundError:
            remedy = (
                "install the CustomResourceDefinitions with the chart, "
                "or: kubectl apply --server-side -k crds (the chart then needs crds.install=false)"
            )
            return State.PROBLEM, f"the API server does not serve {resource.plural}; {remedy}"
        except ForbiddenError:
            return State.UNKNOWN, f"you cannot list {resource.plural}"
    return State.OK, f"{UPGRADES.plural} and {TASKS.plural} are served as {UPGRADES.api_version}"


async def _rights(kube: ReviewingKube) -> Found:
    if missing := [f"{verb} {each.plural}" for verb, each in _NEEDED if not await kube.may(verb, each)]:
        return State.PROBLEM, f"you cannot {', '.join(missing)}; ask for {_roles(missing)}"
    changing = {"create": "start", "patch": "steer"}
    may = [word for verb, word in changing.items() if await kube.may(verb, UPGRADES)]
    if not may:
        return State.OK, "you can read, but starting and steering rollouts requires the role nodeupgrade-operate"
    return State.OK, f"you can read, and {' and '.join(may)} rollouts"


def _roles(missing: Iterable[str]) -> str:
    """Return what gives these permissions; no role of Kubernetes' own that is meant for people lists nodes."""
    ours = {f"list {each.plural}" for each in (UPGRADES, TASKS)}
    theirs = {f"list {each.plural}" for each in (PODS, EVENTS)}
    wanted = [
        "the role nodeupgrade-view" if ours & {*missing} else "",
        "the role view in all namespaces" if theirs & {*missing} else "",
        "a cluster role that may get and list nodes" if f"list {NODES.plural}" in missing else "",
    ]
    return " and ".join(filter(None, wanted))


async def _operator(world: World, kube: KubeApi) -> Found:
    where = f"--namespace {INSTALLED_IN}"
    try:
        lease = read(await kube.get(LEASES.within(INSTALLED_IN), LEASE_NAME))
        if lease.holder and not _is_recent(lease, world.now()):
            # Clocks differ: only a renewal that is seen to change proves that an operator is alive.
            await world.sleep(2 * RETRY.total_seconds())
            before, lease = lease, read(await kube.get(LEASES.within(INSTALLED_IN), LEASE_NAME))
            lease = lease if lease != before else LeaseRecord(holder="", duration=DURATION)
        pods = await kube.list(PODS.within(INSTALLED_IN), labels=OPERATOR_LABELS)
    except NotFoundError:
        remedy = "install nodeupgrade, or choose another --context"
        return State.PROBLEM, f"there is no Lease {LEASE_NAME} in {INSTALLED_IN}; {remedy}"
    except ForbiddenError:
        return State.UNKNOWN, f"you cannot read the namespace {INSTALLED_IN}"
    if lease.holder:
        return State.OK, f"{lease.holder.partition('_')[0]} leads; {counted(len(pods), 'pod')}"
    if not pods:
        remedy = f"see: kubectl {where} describe deployment {DEPLOYMENT}"
        return State.PROBLEM, f"no operator leads, and it has no pod; {remedy}"
    if why := next(filter(None, map(_waiting, pods)), None):
        return State.PROBLEM, f"no operator leads: {why}"
    return State.PROBLEM, f"no operator leads; see: kubectl {where} logs deployment/{DEPLOYMENT}"


def _is_recent(lease: LeaseRecord, now: datetime) -> bool:
    renewed = known_time(lease.renewed_at)  # it is written by others, and may be no time
    return renewed is not None and abs(now - renewed) < DURATION


def _waiting(pod: Json) -> str:
    """Return why a pod cannot start; empty if it does."""
    name = pod["metadata"]["name"]
    for container in container_statuses(pod.get("status") or {}):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if (reason := str(waiting.get("reason") or "")) not in _STARTING:
            image = f" (image {container['image']})" if "Image" in reason and container.get("image") else ""
            said = f": {waiting['message']}" if waiting.get("message") else ""
            log = f"kubectl --namespace {INSTALLED_IN} logs {name} --previous"
            remedy = "correct image.repository and image.tag, or the pull secret" if image else f"see: {log}"
            return f"pod {name} cannot start: {reason}{image}{said}; {remedy}"
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            said = str(condition.get("message")).rstrip(".")
            return f"pod {name} is not scheduled: {said}; make room for it on a Linux node"
    return ""


async def _policies(kube: KubeApi) -> Found:
    server = await kube.server_version()
    if not history.ADMISSION_POLICIES.applies_to(KubeletVersion.parse(server)):
        without = "so pods may be reported unready for a moment while their kubelet is replaced"
        return State.OK, f"the API server {server} has no admission policies, {without}"
    try:
        lacking = {name: lacks for name in POLICIES if (lacks := await _lacks(kube, name))}
    except ForbiddenError:
        return State.UNKNOWN, f"you cannot get {ADMISSION_POLICIES.plural} or {ADMISSION_POLICY_BINDINGS.plural}"
    wanted = {name: lacks for name, lacks in lacking.items() if name not in OPTIONAL or len(lacks) < len(_PARTS)}
    guard = await GuardWriter(kube, INSTALLED_IN).read()
    if not wanted and guard is None and await guard_is_hidden(kube):
        return State.UNKNOWN, f"you cannot get {CONFIGMAPS.plural} in {INSTALLED_IN}"
    problem = requirement.obstacle(KubeletVersion.parse(server), guard)
    if wanted or problem is not None:
        missing = "; ".join(f"{name} lacks its {' and its '.join(lacks)}" for name, lacks in wanted.items())
        files = dict.fromkeys(POLICIES[name] for name in wanted or (READINESS_GUARD,))
        remedy = f"apply {', '.join(files)}, or upgrade the chart"
        return State.PROBLEM, with_remedy(missing or str(problem), remedy).removesuffix(".")
    told = "the readiness guard, the fence of the operator and the identity of agents are installed"
    return State.OK, told if FOUR_EYES in lacking else f"{told}, and who creates a NodeUpgrade may not approve it"


_PARTS = (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS)


async def _lacks(kube: KubeApi, name: str) -> list[str]:
    """Return the kinds of a policy's parts that are missing; a binding that does not deny is none."""
    lacks = []
    for part in _PARTS:
        try:
            spec = (await kube.get(part, name)).get("spec") or {}
        except NotFoundError:
            spec = None
        if spec is None or (part is ADMISSION_POLICY_BINDINGS and "Deny" not in (spec.get("validationActions") or ())):
            lacks.append(part.kind)
    return lacks


async def _agent(kube: ReviewingKube, node: str | None) -> Found:
    pods = PODS.within(INSTALLED_IN)
    if node is None:
        return State.UNKNOWN, "not tried; use --node NAME to have the API server admit one without creating it"
    view, deployments = view_node(await cluster_objects.node(kube, node)), DEPLOYMENTS.within(INSTALLED_IN)
    for verb, resource in (("get", deployments), ("create", pods)):
        if not await kube.may(verb, resource):
            return State.UNKNOWN, f"not tried; you cannot {verb} {resource.plural} in {INSTALLED_IN}"
    try:
        image = _agent_image(await kube.get(deployments, DEPLOYMENT))
        await kube.try_create(pods, agent_pod(_task(view), AgentPodSettings(namespace=INSTALLED_IN, image=image)))
    except NotFoundError as error:
        return State.PROBLEM, f"{error}; install nodeupgrade, or choose another --context"
    except ConflictError:
        return State.OK, f"node {node} already has one"
    except RejectedError as error:
        remedy = f"exempt the namespace {INSTALLED_IN} from the policy that refuses the pod (docs/policies.md)"
        return State.PROBLEM, with_remedy(f"on node {node} it would be refused: {error}", remedy).removesuffix(".")
    return State.OK, f"on node {node} it would be admitted, with the image {image}"


def _agent_image(deployment: Json) -> str:
    """Return the image of agents: the operator's own, unless its environment names another."""
    pod = deployment["spec"]["template"]["spec"]
    variables = (variable for container in pod["containers"] for variable in container.get("env") or ())
    named = (str(each.get("value", "")) for each in variables if each["name"] == "AGENT_IMAGE")
    return next(filter(None, named), None) or operator_image(pod) or ""


def _task(node: NodeView) -> Task:
    """Return a task for an agent that would only look."""
    version = node.kubelet_version
    artifact = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet/kubelet", sha256="0" * 64)
    spec = TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name="check", uid=""),
        run_id=RunId("check"),
        from_version=version,
        to_version=version,
        artifact=artifact,
        action=TaskAction.UPGRADE,
    )
    return Task(name=NodeName(node.name), uid="", resource_version="", generation=0, spec=spec)


_STYLES = {State.OK: GOOD, State.PROBLEM: BAD, State.UNKNOWN: FAINT}


@command("check", "nodeupgrade check", "nodeupgrade check --node node-17", "nodeupgrade check -o json")
@click.option("--node", shell_complete=nodes, help="Also try an agent pod on this node; none is created.")
@click.option("--before-uninstall", is_flag=True, help="Check only whether the operator can be uninstalled.")
@output_option()
@on_cluster
async def check_command(
    world: World, kube: ReviewingKube, *, node: str | None, before_uninstall: bool, output: str
) -> int:
    """Check whether the installation can carry out a rollout.

    One line each: whether the API server serves nodeupgrade's objects; what you may do; whether an operator leads, and
    if none does, why its pods do not start; whether the admission policies and their bindings exist; and, with --node,
    whether quotas, pod security and webhooks would admit an agent pod on that node. It changes nothing.

    With --before-uninstall, only checks whether nodes are in flight, whose runs would not finish without an operator;
    so are those of a NodeUpgrade that was abandoned, until their runs are over.

    The exit code is 1 when there is a problem. What you cannot read is reported as unknown.
    """
    if before_uninstall:
        found = [Line("nodes in flight", *await _in_flight(kube))]
    else:
        found = await examine(world, kube, node)
    if output != "text":
        dump(found, output)
    else:
        drawn = Columns("STATE", "WHAT", "FOUND")
        for line in found:
            drawn.add_row(Text(line.state.value, _STYLES[line.state]), line.subject, line.message)
        show(drawn)
    return NO if any(line.state is State.PROBLEM for line in found) else OK
