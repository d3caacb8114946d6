"""``spec.hooks``: Jobs that run before and after the upgrade of each node."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Final

from nodeupgrade.api.field import Field, Rule, declared
from nodeupgrade.api.limits import TEMPLATE_NAME_LENGTH

MOST_HOOKS: Final = 4  # before, and as many after


@declared(
    Rule(
        "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('1h')",
        "timeout must be from 1s to 1h",
    )
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A Job that is created from a template for each node."""

    template: Annotated[
        str,
        "Name of a suspended CronJob in the operator's namespace whose jobTemplate is used. The operator's "
        "configuration must allow it.",
        Field(
            min_length=1,
            max_length=TEMPLATE_NAME_LENGTH,
            pattern="[a-z0-9]([-a-z0-9.]*[a-z0-9])?",
            expected=f"the name of a CronJob, of at most {TEMPLATE_NAME_LENGTH} characters",
        ),
    ]
    timeout: Annotated[
        timedelta,
        "How long the Job may take, from 1s to 1h, before it is stopped and counts as failed.",
        Field(positive=True),
    ] = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Jobs that run for each node, for example to set a flag in a storage system or to silence alerts.

    They run one after the other, in the order of the list. Each may run more than once for the same node.
    """

    before: Annotated[
        tuple[Hook, ...],
        "Run after the node is cordoned and before anything on it is touched. If one fails, the node is refused.",
        Field(max_items=MOST_HOOKS, list_map_key="template"),
    ] = field(default=())
    after: Annotated[
        tuple[Hook, ...],
        "Run after every run, whatever its outcome and that of other hooks, before another node takes its slot. A "
        "failure is only reported.",
        Field(max_items=MOST_HOOKS, list_map_key="template"),
    ] = field(default=())
