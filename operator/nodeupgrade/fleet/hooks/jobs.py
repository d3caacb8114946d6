"""The Jobs of hooks: made from suspended CronJobs in the operator's namespace, and read back.

A NodeUpgrade only chooses a template that the operator's configuration allows. Whoever may
write CronJobs there decides what runs, and with which rights.
"""

import asyncio
import contextlib
import copy
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.task.object import UPGRADE_LABEL, Task
from nodeupgrade.api.task.spec import HookResult, HookRun
from nodeupgrade.cluster.agent_pods import COMPONENT_LABEL
from nodeupgrade.cluster.kube_api import (
    CRON_JOBS,
    JOBS,
    UPGRADES,
    ConflictError,
    ForbiddenError,
    KubeApi,
    NotFoundError,
    RejectedError,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.hooks.hooks import HookJob, HookJobs

LABELS = {COMPONENT_LABEL: "hook", "app.kubernetes.io/part-of": "nodeupgrade"}

_KEPT_SECONDS = 3600
"""How long a finished Job is kept for inspection, unless its template says otherwise."""

_SEEN_SECONDS = 600
"""Shortest time that it is kept, so that an operator that has to start first sees its end."""

_NAME_LENGTH = 63
"""Pods bear the name of their Job in a label."""


async def start_hook(kube: TypedKube, namespace: str, task: Task, hook: HookRun) -> None:
    """Create the Job of a hook, unless it exists.

    Raises:
        RejectedError: There is no such template, it is not suspended, or the API server rejects the Job.
        UnavailableError: The API server does not answer.
    """
    try:
        template = await kube.get(CRON_JOBS.within(namespace), hook.template)
    except NotFoundError:
        problem = f"there is no CronJob {hook.template} in namespace {namespace} to make the hook's Job from"
        raise RejectedError(problem) from None
    if template["spec"].get("suspend") is not True:
        raise RejectedError(f"CronJob {hook.template} is not suspended, so that it would run by its schedule, too")
    body = hook_job(template, task, hook)
    try:
        await kube.create(JOBS.within(namespace), body)
    except ConflictError:  # an interrupted pass created it; the next pass reads what exists
        existing = (await kube.get(JOBS.within(namespace), body["metadata"]["name"]))["metadata"]
        if not _is_marked(existing, task, hook):
            raise RejectedError(f"Job {existing['name']} exists, and was made for something else; delete it") from None


async def read_hook_jobs(kube: KubeApi, namespace: str, task: Task, hooks: Iterable[HookRun]) -> HookJobs:
    """Return the Jobs of hooks of the task's run, as far as they exist.

    They are read one by one, by their names: Jobs that have ended stay for a while, thousands in a large fleet.
    """

    async def read(hook: HookRun) -> HookJob | None:
        with contextlib.suppress(NotFoundError):
            body = await kube.get(JOBS.within(namespace), _name(task, hook))
            return view_hook_job(body) if _is_marked(body["metadata"], task, hook) else None
        return None

    wanted = tuple(hooks)
    try:
        found = zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True)
    except ForbiddenError as error:
        return HookJobs(unknown=str(error))
    return HookJobs(jobs={(hook.phase, hook.template): job for hook, job in found if job is not None})


def hook_job(template: Json, task: Task, hook: HookRun) -> Json:
    """Return the manifest of a hook's Job, made from a CronJob."""
    made = copy.deepcopy(template["spec"]["jobTemplate"])
    metadata, spec = made.get("metadata") or {}, made["spec"]
    owner = task.spec.upgrade_ref
    spec["activeDeadlineSeconds"] = hook.timeout_seconds
    spec["ttlSecondsAfterFinished"] = max(_SEEN_SECONDS, spec.get("ttlSecondsAfterFinished", _KEPT_SECONDS))
    pod = spec["template"]["spec"]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        container["env"] = _with(container.get("env") or [], _told(task, hook))
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": _name(task, hook),
            "labels": {**(metadata.get("labels") or {}), **LABELS, UPGRADE_LABEL: owner.name},
            "annotations": {**(metadata.get("annotations") or {}), **_marks(task, hook)},
            "ownerReferences": [UPGRADES.as_owner(owner.name, owner.uid)],
        },
        "spec": spec,
    }


def view_hook_job(body: Json) -> HookJob:
    """Return the view of a hook's Job."""
    metadata, status = body["metadata"], body.get("status") or {}
    result, message = _ended(status.get("conditions") or [])
    created_at = from_json(datetime, metadata["creationTimestamp"])
    return HookJob(name=metadata["name"], created_at=created_at, result=result, message=message)


def _marks(task: Task, hook: HookRun) -> Mapping[str, str]:
    """Return the annotations by which a hook's Job is known."""
    marks = {"node": task.name, "run": task.spec.run_id, "hook": hook.phase.value, "template": hook.template}
    return {f"nodeupgrade.dev/{name}": value for name, value in marks.items()}


def _is_marked(metadata: Json, task: Task, hook: HookRun) -> bool:
    """Report whether a Job was made for a hook, and not by somebody else."""
    return _marks(task, hook).items() <= (metadata.get("annotations") or {}).items()


def _ended(conditions: list[Any]) -> tuple[HookResult | None, str]:
    true = {each["type"]: each for each in conditions if each.get("status") == "True"}
    if "Complete" in true:
        return HookResult.SUCCEEDED, ""
    if (failed := true.get("Failed")) is None:
        return None, ""
    late = failed.get("reason") == "DeadlineExceeded"
    return (HookResult.TIMED_OUT if late else HookResult.FAILED), str(failed.get("message") or failed.get("reason"))


def _told(task: Task, hook: HookRun) -> dict[str, str]:
    """Return the environment variables of a hook's containers."""
    return {
        "NODEUPGRADE_NODE": task.name,
        "NODEUPGRADE_NAME": task.spec.upgrade_ref.name,
        "NODEUPGRADE_HOOK": hook.phase.value,
        "NODEUPGRADE_FROM_VERSION": task.spec.from_version,
        "NODEUPGRADE_TO_VERSION": task.spec.to_version,
        "NODEUPGRADE_RESULT": "" if task.verdict is None else task.verdict.outcome.value,
    }


def _with(given: list[Any], told: dict[str, str]) -> list[Any]:
    kept = [each for each in given if each["name"] not in told]
    return [*({"name": name, "value": value} for name, value in told.items()), *kept]


def _name(task: Task, hook: HookRun) -> str:
    unique = "\n".join((task.uid, task.spec.run_id, hook.phase.value, hook.template))
    digest = hashlib.sha256(unique.encode()).hexdigest()[:10]
    words = f"{hook.template}-{hook.phase.value.lower()}-{task.name}".replace(".", "-")
    return f"{words[: _NAME_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"
