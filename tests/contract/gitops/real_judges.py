"""Asks the real programs: kstatus, Flux's evaluator of health expressions, Argo CD's Lua interpreter."""

import json
from pathlib import Path
from typing import Any

from e2e.lab.process import run
from tests.contract.go_program import GoProgram, built

JUDGES = GoProgram(Path(__file__).parent / "judges", ("main.go", "apply.go", "go.mod", "go.sum"))


def tell(command: str, question: dict[str, Any]) -> dict[str, Any]:
    """Put one question to the real programs: ``judge`` or ``apply``, see ``judges/``.

    Raises:
        CommandError: It refuses; the message says why.
    """
    answer: dict[str, Any] = json.loads(run(built(JUDGES), command, stdin=json.dumps(question), timeout=120).stdout)
    return answer
