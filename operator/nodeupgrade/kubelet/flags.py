"""Adapts the kubelet's command line to versions that removed flags, and back to those that need them.

Some removed flags had long had no effect: with a remote runtime, for example, every kubelet ignored the dockershim's
network flags, and since 1.27 every runtime is remote. Others are set to their default, or concern only metrics that the
new version does not have. These are left out without asking, and reported. Any other flag that the new version rejects
needs a person's decision. On the way back, a kubelet that has a dockershim is told again not to use it, and one that
ends privileged pods by default to run them.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion, MinorChange
from nodeupgrade.text import lines, trimmed
from nodeupgrade.text import words as split_words


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaninglessFlag:
    """A flag whose removal changes nothing."""

    name: str
    since: MinorChange  # the change that made kubelets reject it
    values: frozenset[str] = frozenset()  # the values for which this holds; empty for all
    # whether this holds only if the runtime is remote, by the command line or because no other exists
    remote_only: bool = False
    boolean: bool = False  # whether the flag takes no separate value


TRUE = frozenset({"", "true", "True", "TRUE", "t", "T", "1"})
FALSE = frozenset({"false", "False", "FALSE", "f", "F", "0"})
"""Values of flags without a separate value, as Go's ``strconv.ParseBool`` takes them."""

MEANINGLESS = (
    MeaninglessFlag(name="require-kubeconfig", since=history.REQUIRE_KUBECONFIG_REMOVED, boolean=True),
    MeaninglessFlag(name="cadvisor-port", since=history.CADVISOR_PORT_REMOVED, values=frozenset({"0"})),
    MeaninglessFlag(name="allow-privileged", since=history.ALLOW_PRIVILEGED_REMOVED, values=TRUE, boolean=True),
    MeaninglessFlag(name="network-plugin", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="network-plugin-mtu", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="cni-bin-dir", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="cni-conf-dir", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="cni-cache-dir", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="docker-endpoint", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="image-pull-progress-deadline", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(name="experimental-dockershim-root-directory", since=history.DOCKERSHIM_REMOVED, remote_only=True),
    MeaninglessFlag(
        name="container-runtime", since=history.CONTAINER_RUNTIME_FLAG_REMOVED, values=frozenset({"remote"})
    ),
    MeaninglessFlag(name="pod-infra-container-image", since=history.PAUSE_IMAGE_FLAG_REMOVED, remote_only=True),
    MeaninglessFlag(name="logtostderr", since=history.LOGGING_FLAGS_REMOVED, values=TRUE, boolean=True),
    *(
        MeaninglessFlag(name=name, since=history.LOGGING_FLAGS_REMOVED, values=FALSE, boolean=True)
        for name in ("alsologtostderr", "add-dir-header", "one-output", "skip-headers", "skip-log-headers")
    ),
    *(
        MeaninglessFlag(name=name, since=history.CADVISOR_FLAGS_REMOVED, values=frozenset({default}))
        for name, default in (
            # which containers are measured, on which evictions depend, and how the node identifies itself
            ("containerd", "/run/containerd/containerd.sock"),
            ("containerd-namespace", "k8s.io"),
            ("boot-id-file", "/proc/sys/kernel/random/boot_id"),
            ("machine-id-file", "/etc/machine-id,/var/lib/dbus/machine-id"),
            ("global-housekeeping-interval", "1m0s"),
        )
    ),
    *(
        MeaninglessFlag(name=name, since=history.CADVISOR_FLAGS_REMOVED)
        for name in (
            # metrics of applications, events and databases, none of which a kubelet ever served or wrote to
            *("application-metrics-count-limit", "container-hints"),
            *("event-storage-age-limit", "event-storage-event-limit"),
            *("storage-driver-user", "storage-driver-password", "storage-driver-host", "storage-driver-db"),
            *("storage-driver-table", "storage-driver-buffer-duration"),
        )
    ),
    *(
        MeaninglessFlag(name=name, since=history.CADVISOR_FLAGS_REMOVED, boolean=True)
        for name in ("enable-load-reader", "log-cadvisor-usage", "storage-driver-secure")
    ),
)


ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "$": "$$", "%": "%%", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\f": "\\f"}
)
"""Characters that are special within double quotes in a unit file (systemd.service, "Command lines")."""

IS_FLAG = re.compile(r"-(?![0-9])")
"""Matches the start of a flag, but not of a negative number."""

COMPLAINTS = ("unknown flag", "unknown shorthand flag", "invalid argument", "flag needs an argument", "unknown command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag on a command line: its name without dashes, its value if any, and the words it takes.

    A word that is neither a flag nor the value of one has an empty name.
    """

    name: str
    value: str
    words: tuple[str, ...]


REMOTE_RUNTIME, RUNTIME_ENDPOINT = "--container-runtime=remote", "--container-runtime-endpoint"
"""Without the first, kubelets before 1.24 use their dockershim; without the second, dockershim's socket."""

PRIVILEGED = "--allow-privileged=true"
"""Without it, kubelets before 1.11 end every privileged pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A command line without its program, and how it differs from that of the running kubelet."""

    words: tuple[str, ...]
    removed: tuple[str, ...] = ()  # without their values, which may be secret: they are shown to people
    added: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Report whether it differs."""
        return bool(self.removed or self.added)


def adapt(
    words: tuple[str, ...],
    *,
    running: KubeletVersion | None,
    target: KubeletVersion,
    endpoint: str,
    remove: Collection[str],
) -> Arguments:
    """Return the command line for another version.

    Args:
        words: the arguments of the running kubelet.
        running: its version; ``None`` if unknown.
        target: the other version; flags that have no effect with it are left out, and those that it needs are added.
        endpoint: path of the runtime's socket, which later kubelets have by default or from their configuration.
        remove: flags to be left out besides, with or without dashes.
    """
    flags = tuple(parsed(words))
    remote = any(flag.name == "container-runtime" and flag.value == "remote" for flag in flags)
    listed = {canonical(name.lstrip("-").partition("=")[0]) for name in remove}
    kept: list[str] = []
    removed: list[str] = []
    for flag in flags:
        if flag.name and (flag.name in listed or _is_meaningless(flag, target, remote=remote)):
            removed.append(flag.words[0].partition("=")[0])
        else:
            kept.extend(flag.words)
    names = {flag.name for flag in flags}
    needed = () if running is None else _needed(running, target, endpoint)
    added = tuple(word for word in needed if next(parsed((word,))).name not in names)
    return Arguments(words=(*kept, *added), removed=tuple(dict.fromkeys(removed)), added=added)


def _needed(running: KubeletVersion, target: KubeletVersion, endpoint: str) -> Iterator[str]:
    """Yield the flags without which the other version would not do what the running one does unasked."""
    removed = history.DOCKERSHIM_REMOVED
    if removed.applies_to(running) and not removed.applies_to(target):
        yield REMOTE_RUNTIME
        yield f"{RUNTIME_ENDPOINT}=unix://{endpoint}"
    if history.PRIVILEGED_BY_DEFAULT.begins_between(target, running):
        yield PRIVILEGED


def complaint(output: str) -> str:
    """Return the line in which a kubelet says what it rejects; usage or a stack trace may follow it."""
    written = [line for line in map(trimmed, lines(output)) if line]
    complaints = (line for line in written if any(word in line for word in COMPLAINTS))
    return next(complaints, written[-1] if written else "no output")


def rejected_flag(output: str) -> str | None:
    """Return the flag that a kubelet's output complains about; ``None`` if it complains about none."""
    for marker in ("unknown flag: --", "unknown shorthand flag: "):
        _, found, rest = output.partition(marker)
        if found:
            return next(iter(split_words(rest)), "").strip("'\",")
    return None


def canonical(name: str) -> str:
    """Return a flag's name as the kubelet registers it: with dashes instead of underscores."""
    return name.replace("_", "-")


def drop_in(program: str, words: tuple[str, ...]) -> bytes:
    """Return a systemd drop-in that starts ``program`` with exactly these arguments."""
    line = command_line((program, *words))
    return (
        "# Written by nodeupgrade: what this kubelet version does not know is left out, and what it needs is added.\n"
        "# Fold it into the unit's own configuration and remove it when convenient.\n"
        f"[Service]\nExecStart=\nExecStart={line}\n"
    ).encode(errors="surrogateescape")


def command_line(words: tuple[str, ...]) -> str:
    """Quote words for a command line in a systemd unit file."""
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    escaped = word.translate(ESCAPES)
    return f'"{escaped}"' if escaped != word or not word or any(c in word for c in " ;'") else word


def parsed(words: tuple[str, ...]) -> Iterator[Flag]:
    """Yield the flags of a command line; one without a value is a boolean, which is then true (pflag's NoOptDefVal)."""
    booleans = {flag.name for flag in MEANINGLESS if flag.boolean}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            yield Flag(name="", value=word, words=(word,))
            continue
        written, equals, value = word[2:].partition("=")
        name = canonical(written)
        if not equals and name not in booleans and rest and not IS_FLAG.match(rest[0]):
            value = rest.pop(0)
            yield Flag(name=name, value=value, words=(word, value))
        else:
            yield Flag(name=name, value=value if equals else "true", words=(word,))


def _is_meaningless(flag: Flag, target: KubeletVersion, *, remote: bool) -> bool:
    return any(
        flag.name == known.name
        and known.since.applies_to(target)
        and (not known.values or flag.value in known.values)
        and (not known.remote_only or remote or history.PAUSE_IMAGE_FLAG_REMOVED.applies_to(target))
        for known in MEANINGLESS
    )
