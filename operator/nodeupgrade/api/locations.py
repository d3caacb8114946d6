"""The paths and URLs that an object may name."""

from typing import Final

from nodeupgrade.api.field import Rule

_SEGMENT: Final = r"(\.{0,2}[A-Za-z0-9_+:@,=~-]|\.{3})[A-Za-z0-9_.+:@,=~-]*"
"""A part of a path: neither ``.`` nor ``..``, without percent signs, backslashes, spaces and control characters."""

_DOMAIN: Final = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
PORT: Final = r":[1-9][0-9]{0,4}"

PATH: Final = rf"(/{_SEGMENT})+"
ORIGIN: Final = rf"https?://({_DOMAIN}|\[[0-9A-Fa-f:.]+\])({PORT})?"
URL: Final = rf"{ORIGIN}(/{_SEGMENT})+"

KERNEL_DIRECTORIES: Final = ("proc", "sys", "dev")
"""Top directories in which the kernel shows processes and devices as files."""


def not_of_the_kernel(name: str) -> Rule:
    """Return the rule that the path in an optional field is not in a directory of the kernel."""
    tops = tuple(f"/{top}/" for top in KERNEL_DIRECTORIES)
    beginnings = " || ".join(f"self.{name}.startsWith('{top}')" for top in tops)
    return Rule(
        f"!has(self.{name}) || !({beginnings})",
        f"{name} must not be in /{', /'.join(KERNEL_DIRECTORIES[:-1])} or /{KERNEL_DIRECTORIES[-1]}",
    )
