"""Running containers of a node by the kubelet whose hash is stored with them: part of a task's status."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from nodeupgrade.api.field import Count, Field

UNKNOWN_KUBELET = "unknown"
"""Stands for the kubelet of a hash that no known kubelet computes."""

_SERIES = re.compile(r"1\.[0-9]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashCensus:
    """Running containers by the kubelet that computes the hash stored with them."""

    as_of: Annotated[datetime | None, "When they were counted."] = None
    kubelets: Annotated[
        Mapping[str, Count],
        "Number of containers by minor version, such as 1.30; unknown: no known kubelet computes their hash. A hash"
        " that several kubelets compute counts for the running one, otherwise for the one nearest to it.",
        Field(max_properties=64),
    ] = field(default_factory=dict)

    @property
    def counted(self) -> Counter[str]:
        """The numbers; what is not a minor version counts as unknown, whoever wrote it."""
        found = Counter[str]()
        for kubelet, number in self.kubelets.items():
            found[kubelet if _SERIES.fullmatch(kubelet) else UNKNOWN_KUBELET] += number
        return found
