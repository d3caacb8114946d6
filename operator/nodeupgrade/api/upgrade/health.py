"""``spec.healthChecks``: conditions of the cluster that must hold before a node is started."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

from nodeupgrade.api.field import DNS_LABEL, Field, Rule, declared
from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH
from nodeupgrade.api.upgrade.nodes import LabelSelector
from nodeupgrade.api.upgrade.strategy import OnFailure

MOST_CHECKS: Final = 16

_OBJECT_NAME = Field(
    min_length=1,
    max_length=NAME_LENGTH,
    pattern="[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?",
    expected="the name of an object",
)
_EXPRESSION = Field(min_length=1, max_length=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusQuery:
    """A query, and what must be true of every sample that it returns."""

    server: Annotated[
        str, DNS_LABEL, "Name of a Prometheus server in the operator's configuration, which contains its URL."
    ] = "default"
    query: Annotated[
        str,
        "Instant query in PromQL. If it returns no samples, the check cannot be evaluated.",
        Field(min_length=1, max_length=4096),
    ]
    expression: Annotated[
        str,
        _EXPRESSION,
        "CEL expression that must be true for each sample. Variables: value (a number) and labels. For example: "
        "value < 0.01.",
    ]


@declared(
    Rule(
        "!(has(self.name) && has(self.selector))",
        "name and selector are mutually exclusive; write one of them, or neither for all objects",
    ),
    Rule(
        "!(self.apiVersion == 'v1' && self.resource == 'secrets')",
        "health checks cannot read Secrets; choose another resource, or a metric",
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """Objects of the cluster, and what must be true of each of them."""

    api_version: Annotated[
        str,
        "API group and version of the objects, for example apps/v1.",
        Field(
            max_length=NAME_LENGTH,
            pattern=r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*",
            expected="a group and version such as apps/v1, or v1",
        ),
    ]
    resource: Annotated[
        str,
        "Plural name of the resource, as in RBAC rules, for example deployments.",
        Field(
            max_length=LABEL_LENGTH,
            pattern="[a-z]([-a-z0-9]*[a-z0-9])?",
            expected="the plural name of a resource such as deployments",
        ),
    ]
    namespace: Annotated[
        str | None,
        DNS_LABEL,
        "Namespace of the objects. If unset, objects of all namespaces, or cluster-scoped objects.",
    ] = None
    name: Annotated[str | None, _OBJECT_NAME, "Name of a single object. Mutually exclusive with selector."] = None
    selector: Annotated[
        LabelSelector | None,
        "Selects objects by label. If there are none, the check cannot be evaluated. Mutually exclusive with name.",
    ] = None
    expression: Annotated[str, _EXPRESSION, "CEL expression that must be true for each object. Variable: object."]


@declared(
    Rule("has(self.prometheus) != has(self.objects)", "exactly one of prometheus and objects must be set"),
    Rule(
        "duration(self.interval) >= duration('5s') && duration(self.interval) <= duration('1h')",
        "interval must be from 5s to 1h",
    ),
    Rule("duration(self.timeout) <= duration(self.interval)", "timeout must not be longer than interval"),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A condition of the cluster; exactly one of prometheus and objects is set."""

    name: Annotated[str, DNS_LABEL, "Name of the check, used in messages."]
    prometheus: Annotated[PrometheusQuery | None, "Evaluates metrics of a Prometheus server."] = None
    objects: Annotated[ClusterObjects | None, "Evaluates objects of the cluster."] = None
    interval: Annotated[timedelta, "How often the check is evaluated, from 5s to 1h.", Field(positive=True)] = (
        timedelta(seconds=30)
    )
    for_: Annotated[
        timedelta,
        "How long the check must have passed without interruption, and since the last node was finished, before a node "
        "is started; and how long it must have failed before onFailure: Abort ends the rollout.",
    ] = timedelta(minutes=1)
    timeout: Annotated[timedelta, "Timeout of one evaluation.", Field(positive=True)] = timedelta(seconds=10)
    on_failure: Annotated[
        OnFailure,
        "Pause: no further node is started until the check passes again. Abort: if any node was started, the rollout "
        "ends once the nodes in flight are finished. A check that cannot be evaluated always pauses the "
        "rollout.",
    ] = OnFailure.PAUSE


HEALTH_CHECKS = Field(
    "Checks of the cluster's health that must pass before a node is started, during the soak of a wave, and before "
    "the rollout succeeds.",
    max_items=MOST_CHECKS,
    list_map_key="name",
    defaulted=True,
    mutable=True,
)
