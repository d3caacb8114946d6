"""The chart's values, each said once: values.yaml, its JSON schema and the table of its README follow from here."""

import textwrap
from dataclasses import dataclass
from typing import Any

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.locations import ORIGIN, PATH, URL
from nodeupgrade.api.upgrade.artifact import COMPONENT, REGISTRY

_STRING: Json = {"type": "string"}
_BOOLEAN: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_STRINGS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_LIMIT: Json = {"type": ["integer", "string", "null"], "minimum": 0, "pattern": "^([0-9]+|(100|[1-9]?[0-9])%)?$"}
_QUANTITY: Json = {
    "type": ["number", "string", "null"],
    "pattern": "^[0-9]*\\.?[0-9]+([eE][0-9]+|[numkMGTPE]|[KMGTPE]i)?$",
}
_QUANTITIES: Json = {"type": ["object", "null"], "additionalProperties": _QUANTITY}
_RESOURCES: Json = {**_OBJECT, "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES}}
_NAME = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_ALLOWED = {
    "urls": f"({ORIGIN}|{URL})/?",
    "paths": f"/|{PATH}/?",
    "images": f"{REGISTRY}(/{COMPONENT})*/?",
    "digests": "[0-9a-f]{64}",
    "units": r"[A-Za-z0-9:_.\\@-]+\.service",
    "pullSecrets": _NAME,
    "files": f"/|{PATH}/?",
    "hooks": _NAME,
}
"""What the operator reads, so that helm already names what it would reject."""
_AUTO: Json = {"enum": ["Auto", "Install", "Omit"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of the chart."""

    name: str  # path with dots, such as `image.tag`
    default: Any  # what it is if nobody sets it
    schema: Json  # JSON schema of it
    meaning: str  # one sentence


def values(operator: Json, allowed: Json, *, image: str, source: str) -> tuple[Value, ...]:
    """Return the values, with the defaults that the operator's Deployment has in the manifests.

    Args:
        operator: the Deployment.
        allowed: the content of manifests/allowed.yaml.
        image: the operator's image, without a tag.
        source: where the files of this version can be read, with a slash at its end; empty if nowhere.
    """
    pod = operator["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return (
        *_of_the_image(image, container),
        Value(
            name="replicas",
            default=operator["spec"]["replicas"],
            schema={"type": "integer", "minimum": 0},
            meaning="Replicas of the operator.",
        ),
        Value(
            name="revisionHistoryLimit",
            default=None,
            schema={"type": ["integer", "null"], "minimum": 0},
            meaning="Old ReplicaSets to keep; Kubernetes keeps 10.",
        ),
        Value(
            name="resources", default=container["resources"], schema=_RESOURCES, meaning="Resources of the operator."
        ),
        Value(
            name="nodeSelector",
            default=pod["nodeSelector"],
            schema=_STRINGS,
            meaning="Nodes that the operator may run on.",
        ),
        Value(
            name="tolerations",
            default=pod["tolerations"],
            schema={"type": "array", "items": _OBJECT},
            meaning="Taints that the operator tolerates; agents tolerate all.",
        ),
        *_of_the_pod(operator["spec"]["template"]),
        Value(
            name="serviceAccount.annotations",
            default={},
            schema=_STRINGS,
            meaning="Annotations of the operator's service account.",
        ),
        Value(
            name="extraObjects",
            default=[],
            schema={"type": "array", "items": _OBJECT},
            meaning="Further objects to install with the chart; templates in them are rendered.",
        ),
        Value(
            name="allowed",
            default=allowed,
            schema=_allowed_schema(allowed),
            meaning="Where kubelets may come from, and which units, secrets and files may be named: "
            "manifests/allowed.yaml.",
        ),
        *_of_the_budget(),
        *_of_the_cluster(),
        *_of_cluster_api(),
        *_of_monitoring(source),
        Value(
            name="cleanup",
            default=False,
            schema=_BOOLEAN,
            meaning="Before uninstalling: remove from every node what runs have left there.",
        ),
        Value(
            name="uninstallCheck",
            default=True,
            schema=_BOOLEAN,
            meaning="Let `helm uninstall` fail while nodes are in flight.",
        ),
    )


def _of_the_pod(template: Json) -> tuple[Value, ...]:
    """Return the values for the operator's pod that manifests have no or few words about."""
    pod, objects = template["spec"], {"type": "array", "items": _OBJECT}
    (container,) = pod["containers"]
    said: dict[str, tuple[Any, Json, str]] = {
        "affinity": ({}, _OBJECT, "Affinity of the operator."),
        "topologySpreadConstraints": (
            pod["topologySpreadConstraints"],
            objects,
            "How the operator's replicas are spread; from Kubernetes 1.25 on.",
        ),
        "priorityClassName": (pod["priorityClassName"], _STRING, "Priority of the operator."),
        "podLabels": ({}, _STRINGS, "Further labels of the operator's pods."),
        "podAnnotations": (
            template["metadata"]["annotations"],
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
            "Annotations of the operator's pods; `null` takes one away.",
        ),
        "env": ([], objects, "Further environment of the operator, such as `HTTPS_PROXY`; agents have none of it."),
        "podSecurityContext": (pod["securityContext"], _OBJECT, "Security context of the operator's pods."),
        "securityContext": (container["securityContext"], _OBJECT, "Security context of the operator's container."),
        "livenessProbe": (container["livenessProbe"], _OBJECT, "When the operator is started anew."),
        "readinessProbe": (container["readinessProbe"], _OBJECT, "When the operator is ready."),
        "volumes": ([], objects, "Further volumes of the operator, for example with the certificate of a receiver."),
        "volumeMounts": ([], objects, "Where they are mounted."),
    }
    return tuple(Value(name=name, default=d, schema=s, meaning=m) for name, (d, s, m) in said.items())


def _allowed_schema(allowed: Json) -> Json:
    return _closed({key: {"type": "array", "items": {**_STRING, "pattern": f"^({_ALLOWED[key]})$"}} for key in allowed})


def _of_the_image(image: str, container: Json) -> tuple[Value, ...]:
    return (
        Value(
            name="image.repository",
            default=image,
            schema={**_STRING, "minLength": 1},
            meaning="Image of the operator and of its agents, without a tag.",
        ),
        Value(name="image.tag", default="", schema=_STRING, meaning="Tag; empty for the version of the chart."),
        Value(
            name="image.digest",
            default="",
            schema={**_STRING, "pattern": "^(sha256:[0-9a-f]{64})?$"},
            meaning="Digest (`sha256:…`); if given, it decides, and not the tag.",
        ),
        Value(
            name="image.pullPolicy",
            default=container["imagePullPolicy"],
            schema={"enum": ["Always", "IfNotPresent", "Never"]},
            meaning="When the operator's image is pulled.",
        ),
        Value(
            name="imagePullSecrets",
            default=[],
            schema={
                "type": "array",
                "items": {"type": "object", "required": ["name"], "properties": {"name": _STRING}},
            },
            meaning="Secrets in the namespace to pull the image with, for the operator and for agents.",
        ),
    )


def _of_the_budget() -> tuple[Value, ...]:
    said = {
        "maxInFlight": "Nodes in flight at a time",
        "maxUnavailable": "Nodes in flight, cordoned by anyone or not Ready at a time",
    }
    return tuple(
        Value(
            name=name,
            default="",
            schema=_LIMIT,
            meaning=f"{meaning}, of all rollouts together: a number or a percentage of the cluster's nodes; empty for "
            "no limit besides those of each rollout.",
        )
        for name, meaning in said.items()
    )


def _of_the_cluster() -> tuple[Value, ...]:
    return (
        Value(
            name="namespace.create",
            default=False,
            schema=_BOOLEAN,
            meaning=(
                "Render the namespace with its pod security labels, for tools that apply what `helm template` prints. "
                "`helm install` needs `--create-namespace` instead."
            ),
        ),
        Value(
            name="crds.install",
            default=True,
            schema=_BOOLEAN,
            meaning="Install the CustomResourceDefinitions, and upgrade them with the chart.",
        ),
        Value(
            name="crds.keep",
            default=True,
            schema=_BOOLEAN,
            meaning="Keep them, and with them every NodeUpgrade, when the chart is uninstalled.",
        ),
        Value(
            name="crds.validationRules",
            default="Auto",
            schema=_AUTO,
            meaning="Whether the CustomResourceDefinitions have rules in CEL. `Auto`: from Kubernetes 1.25 on.",
        ),
        Value(
            name="admissionPolicies",
            default="Auto",
            schema=_AUTO,
            meaning=(
                "Install the ValidatingAdmissionPolicies: the readiness guard, and what binds agents to their nodes. "
                "`Auto`: from Kubernetes 1.30 on."
            ),
        ),
        Value(
            name="fourEyes",
            default=False,
            schema=_BOOLEAN,
            meaning=(
                "Install the ValidatingAdmissionPolicy by which nobody approves a NodeUpgrade of their own; needs "
                "Kubernetes 1.30."
            ),
        ),
        Value(
            name="nodesProxy",
            default=False,
            schema=_BOOLEAN,
            meaning="Let agents read the configuration of kubelets before 1.33, with the right `nodes/proxy`.",
        ),
    )


def _of_cluster_api() -> tuple[Value, ...]:
    artifacts = {"artifacts": _OBJECT, "spec": _OBJECT}
    return (
        Value(
            name="clusterAPI.enabled",
            default=False,
            schema=_BOOLEAN,
            meaning="Install the runtime extension of Cluster API (docs/cluster-api.md); needs Kubernetes 1.30.",
        ),
        Value(
            name="clusterAPI.rollouts",
            default={name: {} for name in artifacts},
            schema=_closed(artifacts),
            meaning="The kubelets by version (`artifacts`), and the rest of the NodeUpgrades' `spec`.",
        ),
        Value(
            name="clusterAPI.machinesKubeconfigSecret",
            default="",
            schema={**_STRING, "pattern": f"^({_NAME})?$"},
            meaning="Secret whose `kubeconfig` leads to the Machines, if they are in a separate management cluster.",
        ),
    )


def _of_monitoring(source: str) -> tuple[Value, ...]:
    said = {
        "serviceMonitor": "Install a Service and a ServiceMonitor; needs the Prometheus operator.",
        "prometheusRule": "Install a PrometheusRule (docs/generated/metrics.md); needs the Prometheus operator.",
        "dashboard": "Install the Grafana dashboard, as a ConfigMap for Grafana's sidecar.",
    }
    runbooks = "What precedes `docs/alerts/…` in the `runbook_url` of alerts: where this version's files can be read."
    return (
        *(
            Value(name=f"monitoring.{name}", default=False, schema=_BOOLEAN, meaning=meaning)
            for name, meaning in said.items()
        ),
        Value(
            name="monitoring.interval",
            default="15s",
            schema={**_STRING, "pattern": "^([0-9]+(ms|[smhdwy]))+$"},
            meaning="How often the ServiceMonitor has the operator scraped.",
        ),
        Value(
            name="monitoring.labels",
            default={},
            schema=_STRINGS,
            meaning="Labels of ServiceMonitor and PrometheusRule for your Prometheus to find them, such as `release`.",
        ),
        Value(
            name="monitoring.runbooks",
            default=source,
            schema={**_STRING, "pattern": "^(https?://.*/)?$"},
            meaning=runbooks,
        ),
    )


def defaults_file(every: tuple[Value, ...]) -> str:
    """Return values.yaml: each value below its meaning."""
    lines = ["# Generated from manifests/ and tools/chart/values.py; to change it: make chart", ""]
    group = ""
    for value in every:
        first, _, rest = value.name.partition(".")
        if rest and first != group:
            lines.append(f"{first}:")
        group, indent = first, "  " if rest else ""
        dumped = yaml.safe_dump({rest or first: value.default}, sort_keys=False, width=120).splitlines()
        said = textwrap.wrap(value.meaning, 116 - len(indent))
        lines += [*(f"{indent}# {line}" for line in said), *(f"{indent}{line}" for line in dumped)]
    return "\n".join(lines) + "\n"


def schema_of(every: tuple[Value, ...]) -> Json:
    """Return the JSON schema of values.yaml, which knows no other values."""
    top = _closed({"global": _OBJECT})
    for value in every:
        first, _, rest = value.name.partition(".")
        described = {**value.schema, "description": value.meaning}
        if rest:
            top["properties"].setdefault(first, _closed({}))["properties"][rest] = described
        else:
            top["properties"][first] = described
    return {"$schema": "https://json-schema.org/draft-07/schema#", **top}


def _closed(properties: Json) -> Json:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def table(every: tuple[Value, ...]) -> str:
    """Return the table of the chart's README."""
    rows = (f"| `{value.name}` | {_told(value.default)} | {value.meaning} |" for value in every)
    return "\n".join(("| value | default | meaning |", "|---|---|---|", *rows)) + "\n"


def _told(default: Any) -> str:
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case _ if default in (None, "", [], {}):
            return "none"
        case str() | int():
            return f"`{default}`"
        case _:
            return "as in `manifests/`"
