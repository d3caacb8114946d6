"""Which checks were shown on a real node, for docs/preflight.md."""

from collections.abc import Mapping

SHOWN: Mapping[str, tuple[str, ...]] = {}
"""Name of a check, to the names of the rows that show it."""

NOT_SHOWN: Mapping[str, str] = {}
"""Name of a check, to why it cannot be shown on the machine that the tests run on."""
