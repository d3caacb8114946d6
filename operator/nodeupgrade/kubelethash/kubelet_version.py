"""Parses and orders kubelet versions as `kubelet --version`, a Node's status and people write them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

from .errors import UnsupportedKubelet

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?([-+][0-9A-Za-z.+_-]+)?", re.ASCII)
# `1.20-1.30` is a range, not 1.20 with a vendor's suffix; `1.28.2-1.1` is a package of one version.
_RANGE = re.compile(r"v?1\.\d+(\.\d+)?\s*(-|–|\.\.+|to|:)\s*v?1\.\d+(?(1)\.\d+|(\.\d+)?)", re.ASCII | re.IGNORECASE)
_PRE_RELEASE = re.compile(r"-(alpha|beta|rc)\b")


@total_ordering
@dataclass(frozen=True, slots=True)
class KubeletVersion:
    """One kubelet version. Ordered; a pre-release comes before its release, a vendor's build after it."""

    major: int  # 1 in every version that exists
    minor: int  # the number that determines the hash algorithm
    patch: int = 0  # 0 if the version was written without one
    suffix: str = ""  # the rest with its sign, such as `-gke.1`, `+k3s1` or `-rc.0`; empty for plain releases

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `v1.30.14`, `1.30.14`, `1.30` or one of these with a vendor's suffix.

        Raises:
            UnsupportedKubelet: the text is not a version.
        """
        if _RANGE.fullmatch(text.strip()):
            raise UnsupportedKubelet(repr(text), "this is a range; name each version, such as 1.30")
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise UnsupportedKubelet(repr(text), "this is not a version; write it like v1.30.14 or 1.30")
        major, minor, patch, suffix = match.groups()
        return cls(int(major), int(minor), int(patch or 0), suffix or "")

    @classmethod
    def of(cls, version: "Self | str") -> Self:
        """Return a version, parsing it if it is text."""
        return cls.parse(version) if isinstance(version, str) else version

    @property
    def series(self) -> str:
        """The minor as people write it: `1.30`."""
        return f"{self.major}.{self.minor}"

    @property
    def is_pre_release(self) -> bool:
        """Whether this is an alpha, beta or release candidate; false for vendors' builds of a release."""
        return _PRE_RELEASE.match(self.suffix) is not None

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}{self.suffix}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, KubeletVersion):
            return NotImplemented
        return self._order() < other._order()

    def _order(self) -> tuple[int, int, int, bool, str]:
        return (self.major, self.minor, self.patch, not self.is_pre_release, self.suffix)


def series_ranges(kubelets: Iterable[KubeletVersion]) -> str:
    """Format minors, oldest first, as ranges: `1.16 to 1.18, 1.30`."""
    runs: list[list[KubeletVersion]] = []
    for each in kubelets:
        if runs and runs[-1][-1].minor + 1 == each.minor:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(run[0].series if len(run) == 1 else f"{run[0].series} to {run[-1].series}" for run in runs)
