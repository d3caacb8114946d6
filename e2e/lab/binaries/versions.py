"""Exact Kubernetes versions: comparable numbers, and text for file names."""

import re
from dataclasses import dataclass

from e2e.lab.errors import LabError

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A released Kubernetes version such as 1.30.14."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse ``1.30.14`` or ``v1.30.14``.

        Raises:
            LabError: if it is not a version or has no patch; the lab never guesses one.
        """
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise LabError(f"cannot use Kubernetes version {text!r}; name it exactly, for example 1.30.14")
        return cls(*(int(part) for part in match.groups()))

    def __str__(self) -> str:
        """Return the version without a leading v."""
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def tag(self) -> str:
        """The release tag, with a leading v."""
        return f"v{self}"

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor, for comparisons with the release that introduced a feature."""
        return self.major, self.minor
