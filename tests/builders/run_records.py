"""The journal records of a complete run, with before-images."""

from dataclasses import replace

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity, ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.journal import Mark, Record
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage

SECRET, AS_STORED = b"PASSWORD=swordfish", b"UEFTU1dPUkQ9c3dvcmRmaXNo"
MANIFEST = "U0VDUkVU"
IMAGE = BeforeImage(
    container_id=ContainerId("c1"),
    encoding="a type",
    data=SECRET,
    hashes=StoredHashes(container=HashValue("1a2b3c")),
)
FILES = {"/etc/kubernetes/manifests/db.yaml": MANIFEST, "/none": None}
KEPT = {
    Step.STOP_KUBELET: FILES,
    Step.SAVE_STATE: FILES,
    Step.PIN_STATIC_PODS: FILES,
    Step.REWRITE_HASHES: {"c1": to_json(IMAGE, strict=True)},
    Step.SET_ARGUMENTS: FILES,
}


def records(outcome: str | None) -> tuple[Record, ...]:
    """A run with every step, at an end of this kind or under way."""
    found: list[Record] = []
    for step in Step:
        found.append(record(len(found) + 1, Mark.DOING, step, KEPT.get(step, {"tuning": "why"})))
        found.append(record(len(found) + 1, Mark.DONE, step, None))
    if outcome is not None:
        found.append(record(len(found) + 1, Mark.FINISHED, None, {"outcome": outcome}))
    return tuple(found)


def record(seq: int, mark: Mark, step: Step | None, payload: object) -> Record:
    whole = Record(seq=seq, mark=mark, step=step, boot=BootIdentity("b"), at="t", monotonic=1.0)
    return replace(whole, payload=payload)  # type: ignore[arg-type]
