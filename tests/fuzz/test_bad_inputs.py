"""Bad input ends in a sentence, soon; `python -m tests.fuzz.bad_inputs 5000` tries many more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.bad_inputs import MOST_SECONDS, bad_inputs, trouble
from tests.golden.cli.cluster import HERE

PODS = str(HERE / "objects" / "pods.yaml")
EXPLAIN = f"explain --from 1.30 --to 1.33 --pods {PODS}"


@pytest.mark.parametrize("seed", range(4))
def test_bad_input_ends_in_a_sentence(seed: int) -> None:
    for bad in bad_inputs(54, seed):
        found, seconds = trouble(bad)
        assert (found, seconds < MOST_SECONDS) == ("", True), (bad.arguments, bad.given[:200], seconds)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (f"{EXPLAIN} > /dev/full", 1, "error: cannot"),
        ("--help > /dev/full", 1, "error: cannot"),
        ("explain --from 1.30 --to 1.33 --pods - <&-", 2, "standard input is closed"),
        ("lint - <&-", 2, "standard input is closed"),
        ("explain --from 1.30 --to 1.33 --pods - < /dev/null", 1, "there is no pod in the input"),
        (f"{EXPLAIN} -o json | head -c 1 > /dev/null", 0, ""),
    ],
)
def test_streams_that_fail(command: str, code: int, said: str) -> None:
    result = shell(command)
    assert (result.returncode, said in result.stderr, "Traceback" in result.stderr) == (code, True, False), (
        result.stderr
    )


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_terminal_without_the_signs(environment: dict[str, str]) -> None:
    pods = "metadata: {name: 'p–日'}\nspec: {containers: [{name: c, image: 'é'}]}\n"
    result = shell("hash --kubelet-version 1.33 --pods -", pods, PYTHONCOERCECLOCALE="0", **environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "p??" in result.stdout


def shell(command: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m nodeupgrade.cli {command}"
    known = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "operator"), **environment}
    return subprocess.run(
        ["sh", "-c", program], env=known, input=given, capture_output=True, text=True, timeout=600, check=False
    )
