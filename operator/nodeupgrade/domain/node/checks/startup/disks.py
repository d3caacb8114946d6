"""Check of the disks: below its eviction thresholds, a kubelet evicts pods as soon as it has started."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import resource_amount

DEFAULT = {"nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%"}
DEFAULT_INODES = {"imagefs.inodesFree": "5%"}


@check(
    Reason.EVICTION_THRESHOLD_MET,
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.IMAGE_INODES,),
    covers=(Hazard.DISK_FULL, Hazard.DEFAULT_CHANGES),
)
def disks_have_room(facts: Readiness) -> Iterator[Finding]:
    """The filesystems of the kubelet and of the runtime are above the eviction thresholds of the new kubelet."""
    try:
        thresholds = _thresholds(facts)
    except ValueError as error:
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=f"{error}; correct it")
        return
    for (name, path), disk in facts.host.disks.items():
        for signal, free, size, unit in (
            (f"{name}.available", disk.free, disk.size, "bytes"),
            (f"{name}.inodesFree", disk.free_inodes, disk.inodes, "inodes"),
        ):
            if size <= 0 or signal not in thresholds:
                continue
            try:
                least = _amount(thresholds[signal], size)
            except ValueError:
                detail = f"the threshold {signal}<{thresholds[signal]} of evictionHard is not an amount; correct it"
                yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
                continue
            if free < least:
                detail = (
                    f"{free} {unit} are free on the filesystem of {path}, and kubelet {facts.target} evicts pods below "
                    f"{int(least)} ({signal} of evictionHard)"
                )
                yield Finding(reason=Reason.EVICTION_THRESHOLD_MET, detail=detail)


def _thresholds(facts: Readiness) -> Mapping[str, str]:
    default = DEFAULT | (DEFAULT_INODES if history.IMAGE_INODES.applies_to(facts.target) else {})
    given = facts.layout.settings.amounts("eviction-hard", "evictionHard", "<")
    if given is None:
        return default
    merged = facts.layout.settings.document.get("mergeDefaultEvictionSettings") is True
    return {**default, **given} if merged else given


def _amount(text: str, size: int) -> Fraction:
    """Return what a threshold stands for.

    Raises:
        ValueError: it is neither a percentage nor a quantity.
    """
    if not text.endswith("%"):
        return resource_amount(text)
    try:
        return size * Fraction(text.removesuffix("%")) / 100
    except ZeroDivisionError as error:
        raise ValueError(f"{text} is not a percentage") from error


CHECKS: tuple[Check[Readiness], ...] = (disks_have_room,)
