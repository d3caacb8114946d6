"""dockerd's settings at its next start, from flags and daemon.json, which must not set the same one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.text import BLANKS, folded_name, parse_pairs, struct_fields, words


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerdConfiguration:
    """Settings of dockerd."""

    root: str
    exec_root: str
    hosts: tuple[str, ...]  # where it listens
    live_restore: bool  # whether containers survive its starts and stops


PROGRAM_NAME = "dockerd"
DEFAULT_FILE = "/etc/docker/daemon.json"
DEFAULT_ROOT = "/var/lib/docker"
DEFAULT_EXEC_ROOT = "/var/run/docker"
DEFAULT_HOST = "unix:///var/run/docker.sock"
INHERITED = "fd://"
"""The host of a dockerd that systemd passes its socket to."""

# The flags that are read here: those with a value, each with its name in daemon.json, and one without.
VALUED = {"config-file": "", "data-root": "data-root", "graph": "graph", "exec-root": "exec-root", "host": "hosts"}
SHORT = {"-g": "--graph", "-H": "--host"}
LIVE_RESTORE = "live-restore"
READ = frozenset({*VALUED.values(), LIVE_RESTORE}) - {""}
"""Options of daemon.json that are read here."""
TRUE = frozenset({"", "true", "1", "t"})


class UnusableConfiguration(ValueError):
    """dockerd would not start with its configuration, or that is unknown."""


def config_file(words: tuple[str, ...]) -> str:
    """Return the path of daemon.json, from a command line."""
    return _flags(words).get("config-file", [DEFAULT_FILE])[-1]


def read_configuration(words: tuple[str, ...], content: bytes | None) -> DockerdConfiguration:
    """Read the settings from a command line, program first, and the content of daemon.json, if there is one.

    Raises:
        Unusable: dockerd would reject them.
    """
    flags, document = _flags(words), _document(content)
    for flag, key in (*VALUED.items(), (LIVE_RESTORE, LIVE_RESTORE)):
        if flag in flags and key in document:
            raise UnusableConfiguration(f"{key} is set by a flag and in daemon.json, which dockerd rejects")
    root = _last(flags, "data-root") or _last(flags, "graph") or _text(document, "data-root", "graph") or DEFAULT_ROOT
    listed = [] if document.get("hosts") is None else document["hosts"]
    if not isinstance(listed, list) or not all(isinstance(host, str | None) for host in listed):
        raise UnusableConfiguration("hosts in daemon.json is not a list of texts")
    restore = document.get(LIVE_RESTORE)
    if not isinstance(restore, bool | None):
        raise UnusableConfiguration(f"{LIVE_RESTORE} in daemon.json is neither true nor false")
    return DockerdConfiguration(
        root=root,
        exec_root=_last(flags, "exec-root") or _text(document, "exec-root") or DEFAULT_EXEC_ROOT,
        hosts=tuple(flags.get("host", (host or "" for host in listed))) or (DEFAULT_HOST,),
        live_restore=bool(restore) or (_last(flags, LIVE_RESTORE) or "false").lower() in TRUE,
    )


def is_same_start(line: str, command: tuple[str, ...], running: tuple[str, ...]) -> bool:
    """Report whether a unit would start dockerd as it runs.

    Args:
        line: the unit's command line with variables not expanded; their files are compared by time.
        command: its words, if they are known.
        running: those of the running process.
    """
    if command:
        return command == running
    rest = iter(running)
    return all(word in rest for word in literal_words(line))


def literal_words(line: str) -> tuple[str, ...]:
    """Return the words of a command line that contain no variables."""
    return tuple(word for word in words(line) if "$" not in word)


def _flags(words: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    rest = list(words[1:])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = SHORT.get(name, name).removeprefix("--")
        if not equals and name in VALUED and rest:
            value = rest.pop(0)
        elif not equals and name == LIVE_RESTORE:
            value = "true"
        found.setdefault(name, []).append(value)
    return found


def _document(content: bytes | None) -> Mapping[str, object]:
    """Read daemon.json as dockerd does: a name that is not exactly an option's keeps it from starting."""
    try:
        pairs = parse_pairs(content) if content and content.strip(BLANKS.encode()) else []
        document = struct_fields(pairs)
    except ValueError as error:
        raise UnusableConfiguration(f"daemon.json is not JSON that dockerd reads: {error}") from error
    if wrong := [name for name, _ in pairs if name not in READ and folded_name(name) in READ]:
        raise UnusableConfiguration(f"{wrong[0]} in daemon.json is not {folded_name(wrong[0])}, and dockerd rejects it")
    return document


def _last(flags: Mapping[str, list[str]], name: str) -> str:
    return flags.get(name, [""])[-1]


def _text(document: Mapping[str, object], *names: str) -> str:
    for name in names:
        if not isinstance(document.get(name), str | None):
            raise UnusableConfiguration(f"{name} in daemon.json is not a text")
    return next((str(document[name]) for name in names if document.get(name)), "")


def socket_path(host: str) -> PurePosixPath | None:
    """Return the path of a host's unix socket; ``None`` if it has none."""
    path = host.removeprefix("unix://")
    return PurePosixPath(path) if path != host and path.startswith("/") else None
