"""How places are written that programs and files come from: in one way only, so that no two readers differ about one.

Paths have no ``.``, ``..``, empty or encoded parts; URLs have neither user nor query nor fragment; images name their
registry. Each is a regular expression that Python and RE2 (API servers) read alike.
"""

from typing import Final

from nodeupgrade.api.field import Rule

_NAME: Final = r"(\.{0,2}[A-Za-z0-9_+:@,=~-]|\.{3})[A-Za-z0-9_.+:@,=~-]*"
"""A part of a path: neither ``.`` nor ``..``, without percent signs, backslashes, spaces and control characters."""

_DOMAIN: Final = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
_PORT: Final = r":[1-9][0-9]{0,4}"

PATH: Final = rf"(/{_NAME})+"
ORIGIN: Final = rf"https?://({_DOMAIN}|\[[0-9A-Fa-f:.]+\])({_PORT})?"
URL: Final = rf"{ORIGIN}(/{_NAME})+"

_DOTTED: Final = r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"
REGISTRY: Final = rf"({_DOTTED}({_PORT})?|[A-Za-z0-9-]+{_PORT}|localhost)"
COMPONENT: Final = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
IMAGE: Final = rf"{REGISTRY}(/{COMPONENT})+(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?@sha256:[0-9a-f]{{64}}"

KERNEL_DIRECTORIES: Final = ("proc", "sys", "dev")
"""Top directories that hold no files but what the kernel shows: other processes' root directories, devices."""


def not_of_the_kernel(name: str) -> Rule:
    """Return the rule that an optional field with a path does not lead to what the kernel shows as files."""
    tops = tuple(f"/{top}/" for top in KERNEL_DIRECTORIES)
    beginnings = " || ".join(f"self.{name}.startsWith('{top}')" for top in tops)
    return Rule(
        f"!has(self.{name}) || !({beginnings})",
        f"{name} must not lead to /{', /'.join(KERNEL_DIRECTORIES[:-1])} or /{KERNEL_DIRECTORIES[-1]}",
        lambda value: not str(value.get(name, "")).startswith(tops),
    )
