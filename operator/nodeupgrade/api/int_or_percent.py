"""A number of nodes, as an integer or a percentage: Kubernetes' IntOrString with a fixed meaning."""

import re
from dataclasses import dataclass

_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A number of nodes, or a percentage of all nodes."""

    number: int
    percent: bool = False

    @classmethod
    def parse(cls, value: object) -> "IntOrPercent":
        """Parse an integer such as ``2`` or a percentage such as ``"10%"``.

        Raises:
            ValueError: The value is neither, or negative.
        """
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
            return cls(int(match[1]), percent=True)
        raise ValueError(f"{value!r} is neither a number of nodes nor a percentage such as 10%")

    def of(self, total: int) -> int:
        """Return the number of nodes out of ``total``. Percentages round down, but to at least 1 unless they are 0%."""
        if not self.percent:
            return self.number
        return max(1, total * self.number // 100) if self.number else 0

    def render(self) -> int | str:
        """Write the value in the form that `parse` reads."""
        return f"{self.number}%" if self.percent else self.number

    def __str__(self) -> str:
        return str(self.render())
