"""Draw what `kubectl get` prints of our objects: the columns that the CustomResourceDefinitions ask for."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from nodeupgrade.api.crds import Column, Kind
from nodeupgrade.api.json import Json
from nodeupgrade.cli.screens.formatting import since
from nodeupgrade.text import parse_time

_CONDITION = re.compile(r'conditions\[\?\(@\.type=="(\w+)"\)\]')
_GAP = "   "


def table(kind: Kind, bodies: Iterable[Json], now: datetime) -> list[str]:
    """Return the lines of the table without ``-o wide``."""
    columns = [column for column in kind.columns if not column.wide]
    rows = [["NAME", *(column.name.upper() for column in columns)]]
    rows += [[body["metadata"]["name"], *(_value(body, column, now) for column in columns)] for body in bodies]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ((cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [_GAP.join(row).rstrip() for row in cells]


def _value(body: Json, column: Column, now: datetime) -> str:
    value: Any = body
    for part in re.split(r"\.(?![^(]*\))", column.path.removeprefix(".")):
        if found := _CONDITION.fullmatch(part):
            value = next((each for each in value.get("conditions", ()) if each["type"] == found[1]), {})
        else:
            value = value.get(part, "") if isinstance(value, dict) else ""
    return since(parse_time(value), now) if column.type == "date" and value else str(value)
