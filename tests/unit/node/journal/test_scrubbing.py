"""Tests for removing before-images from the journal of a run that is over."""

from dataclasses import replace
from pathlib import Path

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Record
from nodeupgrade.node.journal.journal_file import FileJournal, read_journal
from nodeupgrade.node.journal.run_directories import RunStore
from tests.builders.run_records import AS_STORED, FILES, IMAGE, MANIFEST, records
from tests.doubles.node import SimulatedNode, plan_for, pod_json


def written(path: Path, outcome: str | None) -> bytes:
    with FileJournal(path) as journal:
        for each in records(outcome):
            journal.append(each)
    return path.read_bytes()


def bare(journal: Journal) -> list[Record]:
    return [replace(each, payload=None) for each in journal.records]


@pytest.mark.parametrize("outcome", ["Upgraded", "RolledBack"])
def test_when_a_run_is_over_its_images_go_and_its_story_stays(tmp_path: Path, outcome: str) -> None:
    path = tmp_path / "journal"
    assert AS_STORED in written(path, outcome)

    with FileJournal(path) as journal:
        journal.scrub()

    after, text = read_journal(path), path.read_bytes()
    assert [secret for secret in (AS_STORED, MANIFEST.encode()) if secret in text] == []
    assert bare(after) == bare(Journal(records(outcome)))
    (image,) = (after.payload(Step.REWRITE_HASHES) or {}).values()
    assert image == to_json(replace(IMAGE, data=b""), strict=True)
    assert after.payload(Step.PIN_STATIC_PODS) == dict.fromkeys(FILES)
    assert after.payload(Step.ARM_DEAD_MAN) == {"tuning": "why"}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("outcome", [None, "Degraded"], ids=["under way", "a human is needed"])
def test_as_long_as_somebody_may_need_them_they_stay(tmp_path: Path, outcome: str | None) -> None:
    path = tmp_path / "journal"
    before = written(path, outcome)

    with FileJournal(path) as journal:
        journal.scrub()

    assert path.read_bytes() == before


def test_runs_that_an_earlier_version_finished_are_scrubbed_too(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    for name, outcome in (("one", "Upgraded"), ("two", "RolledBack"), ("three", None)):
        runs.write_plan(plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "c")]), "v1.33.13", run=name))
        written(tmp_path / name / "journal", outcome)

    runs.retire()

    kept = [AS_STORED in (tmp_path / name / "journal").read_bytes() for name in ("one", "two", "three")]
    assert kept == [False, False, True]
