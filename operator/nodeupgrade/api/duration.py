"""Parses and renders durations as people write them in API objects: ``90s``, ``15m``, ``1h30m``."""

import re
from datetime import timedelta

PATTERN = r"(?=.)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?"
_DURATION = re.compile(PATTERN, re.ASCII)

_LONGEST = (2**63 - 1) // 10**9
"""Seconds; Go has no longer duration."""


def parse_duration(text: object) -> timedelta:
    """Parse a duration in whole seconds.

    Raises:
        ValueError: The text is not a duration.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 15m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if (total := 3600 * hours + 60 * minutes + seconds) > _LONGEST:
        raise ValueError(f"{text!r} is longer than any rollout")
    return timedelta(seconds=total)


def render_duration(duration: timedelta) -> str:
    """Write a duration in whole seconds, in the shortest form."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
