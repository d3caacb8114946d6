"""What is told about the manifests of static pods, in previews and in the status of a run."""

from collections.abc import Iterator

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import counted
from nodeupgrade.api.task.status import ManifestUid, StaticPodManifest
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.static_pods import Pins

NAMED = 3


def planned(pins: Pins) -> tuple[StaticPodManifest, ...]:
    """Return what a run would do."""
    changed = (
        StaticPodManifest(path=pin.path, uid=ManifestUid.REMOVED if pin.removes else ManifestUid.ADDED)
        for pin in pins.pins
    )
    return _listed((*changed, *(StaticPodManifest(path=path, uid=ManifestUid.KEPT) for path in pins.kept)))


def left(plan: RunPlan, *, upgraded: bool) -> tuple[StaticPodManifest, ...]:
    """Return what a run that is over has left; one that turned back has restored every manifest."""
    if upgraded:
        return planned(Pins(pins=plan.pins, kept=plan.pinned))
    kept = (*(pin.path for pin in plan.pins if pin.removes), *plan.pinned)
    return _listed(tuple(StaticPodManifest(path=path, uid=ManifestUid.KEPT) for path in kept))


def sentence(manifests: tuple[StaticPodManifest, ...]) -> str:
    """Return what has to be known about manifests that name a UID; empty if none does."""
    paths = tuple(each.path for each in manifests if each.uid is not ManifestUid.REMOVED)
    return "; ".join(_parts(paths))


def _parts(paths: tuple[str, ...]) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
        yield (
            f"metadata.uid in {counted(len(paths), 'static pod manifest')} ({', '.join(paths[:NAMED])}{more}) keeps "
            "the running pod: remove it with your next edit, or the edit will not count"
        )


def _listed(manifests: tuple[StaticPodManifest, ...]) -> tuple[StaticPodManifest, ...]:
    return tuple(sorted(manifests, key=lambda each: each.path))[:CONTAINERS_LISTED]
