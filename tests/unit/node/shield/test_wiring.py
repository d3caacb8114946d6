"""The shield protects what the plan in effect names, read when it is needed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from nodeupgrade.api.json import to_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.journal.plan_in_effect import AMENDMENT
from nodeupgrade.node.plan.amendment import Amendment
from nodeupgrade.node.shield.wiring import build_judge
from tests.builders.journal_records import record
from tests.builders.shielded import JOB, WEB, container_of, shielded_plan


def test_an_amended_plan_that_cannot_be_read_is_read_again(tmp_path: Path) -> None:
    payload = {AMENDMENT: to_json(Amendment(ended=(container_of(JOB),)), strict=True)}
    amended = Journal((record(1, Mark.DOING, step=Step.CONFIRM_INVENTORY, payload=payload),))
    removed = Journal()  # by somebody; the executor will write it again
    answers: list[Any] = [OSError("busy"), removed, amended]

    def read_journal(_: object) -> Journal:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return cast("Journal", answer)

    runs: Any = SimpleNamespace(read_journal=read_journal)
    exchange: Any = SimpleNamespace(intended=lambda: True, path="/run/a.sock", upstream="/run/b.sock")
    judge = build_judge(shielded_plan(), runs, exchange, cast("Any", None), state=tmp_path, patience=0.0)

    assert container_of(JOB) in judge.protected().containers
    assert container_of(JOB) in judge.protected().containers
    assert set(judge.protected().containers) & {container_of(WEB), container_of(JOB)} == {container_of(WEB)}
    assert container_of(JOB) not in judge.protected().containers, "once it is read, it is known"
    assert answers == []
