"""What is known of the running kubelet's start, and of what its next one would read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.kubelet.settings import Configured


class Was(StrEnum):
    """What a file is to the start of a kubelet."""

    CONFIGURATION = "configuration"
    ENVIRONMENT = "environment"
    UNIT = "unit"
    DROP_INS = "drop-ins"
    """A directory of drop-ins, in which one may have been removed; runs of ours put one there and take it away."""
    IDENTITY = "identity"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAtStart:
    """A file, or a directory of files, that a start of the kubelet reads.

    Attributes:
        changed: when it was changed last, in whatever respect, in seconds since 1970; ``None`` if it is not there.
    """

    path: str
    was: Was
    changed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of the running kubelet, and what the next one would find.

    Attributes:
        started: when the process was started, in seconds since 1970.
        words: its command line, the program first.
        environment: what it was started with.
        unit: as systemd has loaded it.
        by_default: variables that systemd gives to every service.
        environment_files: content by path; ``None`` for one that is not there.
        settings: configuration files as they are now, with the running command line.
        running: what the kubelet says of its configuration; ``None`` if it could not be asked.
        why_not_asked: why it could not; empty if it was.
        read: everything that a start reads.
        known_to_server: whether the API server takes the kubeconfig, as it is now, for this node's; ``None`` if
            nobody asked.
    """

    started: float
    words: tuple[str, ...]
    environment: Mapping[str, str]
    unit: UnitStatus
    settings: Configured
    by_default: Mapping[str, str] = field(default_factory=dict)
    environment_files: Mapping[str, bytes | None] = field(default_factory=dict)
    running: Json | None = None
    why_not_asked: str = ""
    read: tuple[ReadAtStart, ...] = ()
    known_to_server: bool | None = None

    def changed_since(self, *kinds: Was) -> tuple[ReadAtStart, ...]:
        """What was changed after the start."""
        return tuple(
            file for file in self.read if file.was in kinds and file.changed is not None and file.changed > self.started
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One respect in which the kubelet would not start as it runs.

    Attributes:
        detail: a sentence that names file, key and both values, but no value that may be a secret.
        acceptable: whether a person may say that it is meant; not where nobody could tell how the kubelet would start.
    """

    detail: str
    acceptable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """In what the kubelet would not start as it runs.

    Attributes:
        words: the command line that the next start would use, without the program, where it is another one.
    """

    policy: DriftPolicy = DriftPolicy.REFUSE
    discrepancies: tuple[Discrepancy, ...] = ()
    words: tuple[str, ...] | None = None


NO_DRIFT = Drift()
