"""Evaluates the rules of a schema where no API server does: before Kubernetes 1.25, and without a cluster.

The library is loaded when the first rule is evaluated: most commands, and the processes on a node, evaluate none.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from nodeupgrade.api.schema.derive import Schema
from nodeupgrade.text import parse_time

if TYPE_CHECKING:
    import cel


def holds(rule: str, schema: Schema, value: Any, *old: Any) -> bool:  # Any: JSON of the schema that carries the rule
    """Report whether a value meets a rule in CEL; one that cannot be evaluated is not met, as on an API server.

    Args:
        rule: The expression, with ``self`` and, for transition rules, ``oldSelf``.
        schema: The schema that has the rule.
        value: The value, with defaults and of valid shape.
        old: The value that it replaces, for transition rules.
    """
    variables = dict(zip(("self", "oldSelf"), (_typed(schema, each) for each in (value, *old)), strict=False))
    try:
        return _program(rule).execute(variables) is True
    except (ValueError, TypeError, RuntimeError, KeyError, OverflowError):
        return False


@cache
def _program(rule: str) -> "cel.Program":
    import cel  # noqa: PLC0415 - a third of a second

    return cel.compile(rule)


def _typed(schema: Schema, value: Any) -> Any:
    """Return an object whose properties of the format date-time are points in time, as they are in CEL."""
    times = {name for name, child in schema.properties.items() if child.format}
    if not times:
        return value
    return {name: parse_time(item) if name in times else item for name, item in value.items()}
