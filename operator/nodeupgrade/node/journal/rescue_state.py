"""How far the rescue script is, as the journal's directory shows it."""

from enum import StrEnum


class Rescue(StrEnum):
    """How far the script has come with a run, as it writes it into the run's directory."""

    NONE = ""
    BEGUN = "begun"
    """Anything may be half restored: the executor must roll back, whatever the journal says."""
    DONE = "done"
    """Everything is restored, except that the kubelet is fenced and has to be started."""
