"""The NodeUpgrade of a MachineDeployment and a version: its name, and its spec from the file of the administrator.

Whoever may change a MachineDeployment chooses a version, and so one of the kubelets of this file, but no other program.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from nodeupgrade.api.errors import NodeUpgradeError
from nodeupgrade.api.json import Json, MalformedObjectError, from_json
from nodeupgrade.api.limits import LABEL_LENGTH
from nodeupgrade.api.upgrade.object import parse_spec
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.yaml import read_one
from nodeupgrade.cluster.kube_api import UPGRADES

NODE_LABEL = "capi.nodeupgrade.dev/rollout"
"""Label on a Node: the NodeUpgrade that Cluster API has handed it over to."""
OWNER_ANNOTATION = "capi.nodeupgrade.dev/machine-deployment"
CREATED_BY_ANNOTATION = "nodeupgrade.dev/created-by"
"""The policy `four-eyes.nodeupgrade.dev`, where it is installed, demands it of whoever creates a NodeUpgrade."""
ACCOUNT = "system:serviceaccount:nodeupgrade-system:nodeupgrade-capi"

_OURS = ("version", "artifact", "nodes")
_HASH_LENGTH = 10


class RolloutsError(NodeUpgradeError):
    """The file of rollouts cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What administrators say about rollouts for Cluster API."""

    artifacts: Mapping[str, Any] = field(default_factory=dict)  # by version: spec.artifact
    spec: Mapping[str, Any] = field(default_factory=dict)  # everything else of a NodeUpgrade's spec

    def spec_of(self, name: str, version: str) -> Json | None:
        """Return the spec of a NodeUpgrade; None if no kubelet of this version is listed."""
        if version not in self.artifacts:
            return None
        # Cluster API never asks for a node to be passed over.
        nodes = {"selector": {"matchLabels": {NODE_LABEL: name}}, "membership": "Continuous", "notReady": "Block"}
        return {**self.spec, "version": version, "artifact": self.artifacts[version], "nodes": nodes}


def read_rollouts(text: bytes) -> Rollouts:
    """Read the file.

    Raises:
        RolloutsError: It is not valid, or a NodeUpgrade that is made from it would not be.
    """
    try:
        data = read_one(text)
        rollouts = Rollouts() if data is None else from_json(Rollouts, data)
        for version in rollouts.artifacts:
            parse_spec(rollouts.spec_of("any", version))
    except (yaml.YAMLError, UnicodeDecodeError, MalformedObjectError) as error:
        raise RolloutsError(f"cannot use the file of rollouts because {error}") from error
    strange = sorted(map(str, data.keys() - {"artifacts", "spec"})) if isinstance(data, dict) else []
    if wrong := [*strange, *(f"spec.{name}" for name in _OURS if name in rollouts.spec)]:
        raise RolloutsError(f"cannot use the file of rollouts because it sets {wrong[0]}; leave that out")
    return rollouts


def name_of(namespace: str, deployment: str, version: str) -> str:
    """Return the name of the NodeUpgrade, which is also the value of a label.

    Other MachineDeployments and versions have another one: a hash ends it.
    """
    digest = hashlib.sha256("/".join((namespace, deployment, version)).encode()).hexdigest()[:_HASH_LENGTH]
    readable = re.sub(r"[^a-z0-9]+", "-", f"{deployment}-{version}".lower())
    return f"{readable[: LABEL_LENGTH - _HASH_LENGTH - 1].strip('-')}-{digest}"


def object_of(name: str, owner: str, spec: Json) -> Json:
    """Return the NodeUpgrade to create."""
    metadata = {
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": "nodeupgrade-capi"},
        "annotations": {OWNER_ANNOTATION: owner, CREATED_BY_ANNOTATION: ACCOUNT},
    }
    return {"apiVersion": UPGRADES.api_version, "kind": UPGRADES.kind, "metadata": metadata, "spec": spec}


def is_for(spec: UpgradeSpec | None, name: str, version: str) -> bool:
    """Report whether a NodeUpgrade is one for these nodes and this version, and not a person's of the same name."""
    if spec is None or spec.nodes.selector is None:
        return False
    labels = spec.nodes.selector.match_labels
    return spec.version == version and labels == {NODE_LABEL: name} and not spec.nodes.selector.match_expressions
