"""A number of nodes, as an integer or a percentage: Kubernetes' IntOrString, with its meaning fixed."""

import re
from dataclasses import dataclass

_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """So many nodes, or so many percent of them."""

    number: int
    percent: bool = False

    @classmethod
    def parse(cls, value: object) -> "IntOrPercent":
        """Read an integer such as ``2`` or a percentage such as ``"10%"``.

        Raises:
            ValueError: It is neither, or negative.
        """
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        if isinstance(value, str) and (found := _PERCENT.fullmatch(value)):
            return cls(int(found[1]), percent=True)
        raise ValueError(f"{value!r} is neither a number of nodes nor a percentage such as 10%")

    def of(self, total: int) -> int:
        """Count nodes: a percentage is rounded down, and to at least one unless it is 0%."""
        if not self.percent:
            return self.number
        return max(1, total * self.number // 100) if self.number else 0

    def render(self) -> int | str:
        """Write it as it is read."""
        return f"{self.number}%" if self.percent else self.number

    def __str__(self) -> str:
        return str(self.render())
