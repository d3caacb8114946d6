"""What a drop-in of a unit sets, besides what has no influence on how the unit's program is started and ended."""

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
    found, section = list[str](), ""
    text = (content or b"").decode(errors="surrogateescape").replace("\\\n", " ")
    for line in map(str.strip, text.splitlines()):
        key, _, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] not in "#;" and f"{section}.{key.strip()}" not in HARMLESS:
            found.append(f"[{section}] {key.strip()}={' '.join(value.split())}")
    return tuple(found)
