"""``spec.hooks``: Jobs that run before and after the upgrade of each node."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, ClassVar, Final

from nodeupgrade.api.field import Field, Rule
from nodeupgrade.api.limits import TEMPLATE_NAME_LENGTH

MOST_HOOKS: Final = 4
"""Of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A Job that is made from a template for each node."""

    SCHEMA: ClassVar = Field(
        rules=(
            Rule(
                "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('1h')",
                "its timeout must be from 1s to 1h",
            ),
        ),
    )

    template: Annotated[
        str,
        Field(
            "Name of a suspended CronJob in the operator's namespace whose jobTemplate is used. The operator's"
            " configuration must allow it.",
            min_length=1,
            max_length=TEMPLATE_NAME_LENGTH,
            pattern="[a-z0-9]([-a-z0-9.]*[a-z0-9])?",
            expected=f"the name of a CronJob, at most {TEMPLATE_NAME_LENGTH} characters",
        ),
    ]
    timeout: Annotated[
        timedelta,
        Field(
            "How long the Job may take, from 1s to 1h. It is stopped then, and counts as failed.",
            positive=True,
            defaulted=True,
        ),
    ] = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What runs around the upgrade of each node; each list in its order, one Job after the other."""

    SCHEMA: ClassVar = Field(
        "Jobs that run for each node, for example to set a flag in a storage system or to silence alerts. Each may run"
        " more than once for the same node.",
        defaulted=True,
    )

    before: Annotated[
        tuple[Hook, ...],
        Field(
            "Run after the node was cordoned, and before anything on it is touched. If one fails, the node is refused.",
            max_items=MOST_HOOKS,
            list_map_key="template",
            defaulted=True,
        ),
    ] = field(default=())
    after: Annotated[
        tuple[Hook, ...],
        Field(
            "Run whenever a run has ended, whatever came of it and of the other hooks, before another node takes its"
            " place. A failure is reported and changes nothing else.",
            max_items=MOST_HOOKS,
            list_map_key="template",
            defaulted=True,
        ),
    ] = field(default=())
