"""The facts about the start of the running kubelet, and about what its next start would read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.shared.run_settings import DriftPolicy
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.kubelet.settings import Configured


class Was(StrEnum):
    """The role of a file in the start of a kubelet."""

    CONFIGURATION = "configuration"
    ENVIRONMENT = "environment"
    UNIT = "unit"
    DROP_INS = "drop-ins"
    """A directory of drop-ins: one may have been removed. A run adds its own drop-in there and removes it again."""
    IDENTITY = "identity"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAtStart:
    """A file, or a directory of files, that a start of the kubelet reads.

    Attributes:
        changed: when its content or metadata was last changed, in seconds since 1970; 0 if it does not exist.
    """

    path: str
    was: Was
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of the running kubelet, and what the next start would read.

    Attributes:
        started: when the process was started, in seconds since 1970.
        words: its command line, the program first.
        environment: the environment that it was started with.
        unit: its unit, as systemd has loaded it.
        by_default: variables that systemd sets for every service.
        environment_files: content by path; ``None`` if the file does not exist.
        settings: the configuration files as they are now, with the running command line.
        running: the configuration that the kubelet reports; ``None`` if it could not be asked.
        why_not_asked: why it could not be asked; empty if it was.
        read: every file that a start reads.
        known_to_server: whether the API server accepts the present kubeconfig as this node's; ``None`` if it was not
            asked.
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
        """Return the files of these kinds that were changed after the start."""
        return tuple(file for file in self.read if file.was in kinds and file.changed > self.started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One respect in which the kubelet would not start as it runs.

    Attributes:
        detail: a sentence that names file, key and both values, but no value that may be a secret.
        acceptable: whether ``kubelet.configurationDrift: Accept`` covers it. It does not if it is unknown how the
            kubelet would start.
    """

    detail: str
    acceptable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Every respect in which the kubelet would not start as it runs.

    Attributes:
        words: the arguments of the next start, without the program, if they differ; otherwise ``None``.
    """

    policy: DriftPolicy = DriftPolicy.REFUSE
    discrepancies: tuple[Discrepancy, ...] = ()
    words: tuple[str, ...] | None = None


NO_DRIFT = Drift()
