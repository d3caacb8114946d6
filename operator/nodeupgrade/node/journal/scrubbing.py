"""Removes from a journal what may be secret, such as environments of containers, once its run is over."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Outcome, Record, parse, render

_WITH_CONTENT = frozenset(
    {Step.STOP_KUBELET, Step.SAVE_STATE, Step.PIN_STATIC_PODS, Step.REWRITE_HASHES, Step.SET_ARGUMENTS}
)
"""Steps whose before-images hold content: stored metadata of containers, or whole files."""


def scrubbed(journal: Journal) -> Journal:
    """Return the journal of a finished run without the content of before-images, which may contain secrets.

    What was done, when, to what and why stays. The journal of a Degraded run is returned unchanged: a person needs the
    before-images to repair the node.
    """
    finished = journal.finished
    if finished is None or (finished.payload or {}).get("outcome") == Outcome.DEGRADED:
        return journal
    return Journal(tuple(_without_images(record) for record in journal.records))


def _without_images(record: Record) -> Record:
    if record.step is Step.CONFIRM_INVENTORY and record.payload is not None:
        return replace(record, payload=dict(_without_manifests(record.payload)))
    if record.step not in _WITH_CONTENT or record.payload is None:
        return record
    images = record.payload.items()  # of files, or of a runtime's containers
    return replace(
        record, payload={name: image | {"data": ""} if isinstance(image, dict) else None for name, image in images}
    )


def _without_manifests(payload: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield an amendment of the plan without the content of manifests that came."""
    for name, value in payload.items():
        pins = value.get("pins") if isinstance(value, dict) else None
        if isinstance(value, dict) and isinstance(pins, list):
            bare: list[JsonValue] = [pin | {"content": ""} if isinstance(pin, dict) else None for pin in pins]
            yield name, value | {"pins": bare}
        else:
            yield name, value


def without_images(data: bytes) -> bytes:
    """Return the bytes of a journal without the content of before-images; see scrubbed(). Other lines stay unchanged.

    Raises:
        Inconsistent: as parse().
    """
    journal, length = parse(data)
    rest = scrubbed(journal)
    if rest == journal:
        return data
    lines = [line + b"\n" for line in data[:length].split(b"\n")[:-1]]
    both = zip(lines, journal.records, rest.records, strict=True)
    return b"".join(line if new is old else render(new) for line, old, new in both)
