"""What a drop-in of a unit sets, besides what has no influence on how the unit's program is started and ended."""

from collections.abc import Iterator

HARMLESS = frozenset(
    {
        *("Unit.Description", "Unit.Documentation", "Unit.After", "Unit.Wants"),
        *("Service.CPUAccounting", "Service.MemoryAccounting", "Service.TasksAccounting", "Service.IOAccounting"),
        *("Service.BlockIOAccounting", "Service.IPAccounting", "Service.CPUWeight", "Service.IOWeight"),
        *("Service.LimitNOFILE", "Service.LimitNPROC", "Service.LimitCORE", "Service.LimitMEMLOCK"),
        *("Service.OOMScoreAdjust", "Service.Nice", "Service.TasksMax"),
    }
)
"""Settings that a run may change; others decide what is started, in which environment, or what ends with it."""


def decisive(content: bytes | None) -> tuple[str, ...]:
    """Return the settings that are not HARMLESS, in order, as ``[Section] Key=value``; none without a drop-in."""
    if content is None:
        return ()
    return tuple(_decisive(content.decode(errors="surrogateescape")))


def _decisive(text: str) -> Iterator[str]:
    section = ""
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, _, value = line.partition("=")
        if f"{section}.{key.strip()}" not in HARMLESS:
            yield f"[{section}] {key.strip()}={' '.join(value.split())}"
