"""What is answered to Cluster API, as its hooks define it.

A Failure is asked again, with back-off, and decides nothing; so an answer that could not be found out is one, and never
an empty answer, by which Cluster API replaces Machines.
"""

import base64
import json
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.printable import stored
from nodeupgrade.capi.requests import GROUP_VERSION, Hook

RETRY_SECONDS = 15

_HANDLERS = {
    "can-update-machine": Hook.CAN_UPDATE_MACHINE,
    "can-update-machine-set": Hook.CAN_UPDATE_MACHINE_SET,
    "update-machine": Hook.UPDATE_MACHINE,
}
TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Done:
    """The Machine runs the version."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The Machine is on its way, or waits for its turn."""

    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A person is needed; the message says what to do."""

    message: str


def discovery() -> Json:
    """Return which hooks are answered, and by which handlers."""
    handlers = [
        {
            "name": name,
            "requestHook": {"apiVersion": GROUP_VERSION, "hook": hook.value},
            "timeoutSeconds": TIMEOUT_SECONDS,
            "failurePolicy": "Fail",
        }
        for name, hook in _HANDLERS.items()
    ]
    return {**_success(Hook.DISCOVERY), "handlers": handlers}


def can_update(hook: Hook, version: str) -> Json:
    """Return that the change of the version, and nothing else, is made in place."""
    of_set = hook is Hook.CAN_UPDATE_MACHINE_SET
    spec = {"spec": {"version": version}}
    patch = {"spec": {"template": spec}} if of_set else spec
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    name = "machineSetPatch" if of_set else "machinePatch"
    return {**_success(hook), name: {"patchType": "JSONMergePatch", "patch": encoded}}


def cannot_update(hook: Hook, why: str) -> Json:
    """Return the empty answer, by which Cluster API goes on as it would without this extension."""
    return {**_success(hook), "message": stored(why)}


def updating(outcome: Done | Waiting | Failed) -> Json:
    """Return how far an update is."""
    match outcome:
        case Done():
            return {**_success(Hook.UPDATE_MACHINE), "retryAfterSeconds": 0}
        case Waiting(message):
            waiting = {"retryAfterSeconds": RETRY_SECONDS, "message": stored(message)}
            return {**_success(Hook.UPDATE_MACHINE), **waiting}
        case Failed(message):
            return failure(Hook.UPDATE_MACHINE, message)


def failure(hook: Hook, message: str) -> Json:
    """Return that a request could not be carried out."""
    return {**_success(hook), "status": "Failure", "message": stored(message)}


def _success(hook: Hook) -> Json:
    return {"apiVersion": GROUP_VERSION, "kind": f"{hook.value}Response", "status": "Success"}
