"""Tests what counts as a question without an answer."""

import pytest

from e2e.kubeadm.watching import Asked
from e2e.lab.errors import LabError


@pytest.mark.parametrize(
    ("answers", "failed"),
    [
        (["", "not ready"], []),
        (["not ready", "", "not ready"], []),
        (["not ready", "not ready", ""], ["not ready"]),
        ([LabError("refused"), ""], []),
        ([LabError("refused"), LabError("closed")], ["closed"]),
    ],
)
def test_a_question_fails_that_is_answered_wrongly_as_often_as_a_busy_machine_may(
    answers: list[str | LabError], failed: list[str]
) -> None:
    left, asked = iter(answers), Asked()

    def question() -> str:
        answer = next(left)
        if isinstance(answer, LabError):
            raise answer
        return answer

    asked.ask(question, times=2)

    assert (asked.answers, asked.failures) == (1, failed)
