"""What Cluster API asks: the requests of its hooks, parsed strictly.

Anybody who reaches the port can send them, so they choose nothing but which objects are read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, TypeVar

from nodeupgrade.api.json import Json, MalformedObjectError, from_json
from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH

Raw: TypeAlias = Mapping[str, object]
T = TypeVar("T")

GROUP_VERSION = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_VERSION = re.compile(r"v1\.[0-9]{1,4}\.[0-9]{1,4}([-+][0-9A-Za-z.-]+)?")

_NO_REASON_TO_UPDATE = frozenset(
    {
        "version", "clusterName", "bootstrap", "infrastructureRef", "providerID", "minReadySeconds", "readinessGates",
        "deletion", "taints",
    }
)  # fmt: skip
"""The version; and what Cluster API (1.14) leaves out when it compares specs of Machines."""


class Hook(StrEnum):
    """The hooks that are answered."""

    DISCOVERY = "Discovery"
    CAN_UPDATE_MACHINE = "CanUpdateMachine"
    CAN_UPDATE_MACHINE_SET = "CanUpdateMachineSet"
    UPDATE_MACHINE = "UpdateMachine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of an object."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deletion_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that Cluster API could make in place."""

    namespace: str
    deployment: str | None  # the MachineDeployment; None if it is of another kind
    control_plane: bool
    current: str | None  # version; None if it is not set
    desired: str | None
    others: tuple[str, ...]  # what else would change, by the names of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The request to bring one Machine to a version."""

    namespace: str
    machine: str
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    metadata: Metadata
    spec: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    spec: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class _SetSpec:
    template: _Template


@dataclass(frozen=True, slots=True, kw_only=True)
class _MachineSet:
    metadata: Metadata
    spec: _SetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfMachine:
    machine: _Machine
    infrastructure_machine: Raw
    bootstrap_config: Raw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSet:
    machine_set: _MachineSet
    infrastructure_machine_template: Raw
    bootstrap_config_template: Raw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CanUpdateMachine:
    current: _OfMachine
    desired: _OfMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class _CanUpdateMachineSet:
    current: _OfSet
    desired: _OfSet


@dataclass(frozen=True, slots=True, kw_only=True)
class _UpdateMachine:
    desired: _OfMachine


def can_update_machine(data: object) -> Change:
    """Parse a CanUpdateMachineRequest.

    Raises:
        MalformedObjectError: It is not one; the error names the field.
    """
    request = _parsed(_CanUpdateMachine, Hook.CAN_UPDATE_MACHINE, data)
    now, then = request.current, request.desired
    pairs = {
        "infrastructureMachine": (now.infrastructure_machine, then.infrastructure_machine),
        "bootstrapConfig": (now.bootstrap_config, then.bootstrap_config),
    }
    others = [name for name, (before, after) in pairs.items() if _at(before, "spec") != _at(after, "spec")]
    return _change(now.machine.metadata, "machine", now.machine.spec, then.machine.spec, others)


def can_update_machine_set(data: object) -> Change:
    """Parse a CanUpdateMachineSetRequest.

    Raises:
        MalformedObjectError: It is not one; the error names the field.
    """
    request = _parsed(_CanUpdateMachineSet, Hook.CAN_UPDATE_MACHINE_SET, data)
    now, then, path = request.current, request.desired, ("spec", "template", "spec")
    pairs = {
        "infrastructureMachineTemplate": (now.infrastructure_machine_template, then.infrastructure_machine_template),
        "bootstrapConfigTemplate": (now.bootstrap_config_template, then.bootstrap_config_template),
    }
    others = [name for name, (old, new) in pairs.items() if _at(old, *path) != _at(new, *path)]
    before, after = (each.machine_set.spec.template.spec for each in (now, then))
    return _change(now.machine_set.metadata, "machineSet", before, after, others)


def update_machine(data: object) -> Update:
    """Parse an UpdateMachineRequest.

    Raises:
        MalformedObjectError: It is not one; the error names the field.
    """
    machine = _parsed(_UpdateMachine, Hook.UPDATE_MACHINE, data).desired.machine
    _check_names(machine.metadata, "desired.machine")
    version = version_of(machine.spec, "desired.machine.spec")
    return Update(namespace=machine.metadata.namespace, machine=machine.metadata.name, version=version)


def version_of(spec: Raw, path: str) -> str | None:
    """Return the version that a Machine's spec asks for; None if it asks for none.

    Raises:
        MalformedObjectError: It is not the version of a kubelet.
    """
    version = spec.get("version")
    if version is None or (isinstance(version, str) and len(version) <= LABEL_LENGTH and _VERSION.fullmatch(version)):
        return version
    raise MalformedObjectError(f"{path}.version", "it is not a version such as v1.33.13")


def checked_name(name: str, path: str) -> str:
    """Return a name, which becomes a part of a path.

    Raises:
        MalformedObjectError: It cannot be the name of an object.
    """
    if len(name) <= NAME_LENGTH and _NAME.fullmatch(name):
        return name
    raise MalformedObjectError(path, "it is not a name of lower-case letters, digits, - and .")


def _parsed(kind: type[T], hook: Hook, data: object) -> T:
    body: Json = data if isinstance(data, dict) else {}
    for name, wanted in {"apiVersion": GROUP_VERSION, "kind": f"{hook.value}Request"}.items():
        if body.get(name) != wanted:
            raise MalformedObjectError(name, f"it is not {wanted}")
    return from_json(kind, body)


def _change(metadata: Metadata, path: str, before: Raw, after: Raw, others: list[str]) -> Change:
    _check_names(metadata, f"current.{path}")
    deployment = metadata.labels.get(DEPLOYMENT_LABEL)
    if deployment is not None:
        checked_name(deployment, f"current.{path}.metadata.labels[{DEPLOYMENT_LABEL}]")
    fields = sorted((before.keys() | after.keys()) - _NO_REASON_TO_UPDATE)
    return Change(
        namespace=metadata.namespace,
        deployment=deployment,
        control_plane=CONTROL_PLANE_LABEL in metadata.labels,
        current=version_of(before, f"current.{path}.spec"),
        desired=version_of(after, f"desired.{path}.spec"),
        others=(*(f"{path}.{name}" for name in fields if before.get(name) != after.get(name)), *others),
    )


def _check_names(metadata: Metadata, path: str) -> None:
    checked_name(metadata.name, f"{path}.metadata.name")
    checked_name(metadata.namespace, f"{path}.metadata.namespace")


def _at(body: object, *path: str) -> object:
    """Return what lies at a path; None if nothing does."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
