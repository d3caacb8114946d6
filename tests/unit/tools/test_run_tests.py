"""The parts of all tests: their output is shown, what failed is told, and they end with all that they started."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.process import wait_until
from tools.run_tests import LONGEST_LINE, Part, what_failed

PASSES = "def test_it() -> None:\n    assert True\n"
FAILS = "def test_it() -> None:\n    assert 'this' == 'that'\n"
LONG = f"def test_long() -> None:\n    raise ValueError({'x' * 5000!r})\n"
WAITS = """
import subprocess, time
from pathlib import Path

def test_it() -> None:
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        Path({!r}).touch()
        try:
            time.sleep(600)
        finally:
            Path({!r}).touch()
"""
NICE = "import os\ndef test_it() -> None:\n    assert os.nice(0) == {}\n"


def arguments(path: Path, content: str) -> tuple[str, ...]:
    path.write_text(content)
    return ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(path.parent), str(path))


@pytest.mark.parametrize(("content", "expected", "said"), [(PASSES, 0, "1 passed"), (FAILS, 1, "'this' == 'that'")])
def test_its_output_is_shown_and_its_failure_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, expected: int, said: str
) -> None:
    for waited in (Part.wait, Part.follow):
        code, output = waited(Part(*arguments(tmp_path / "test_a.py", content)))
        assert code == expected
        assert said in output
        assert output in capfd.readouterr().out


def test_what_failed_and_why_is_all_that_is_told_in_the_end(tmp_path: Path) -> None:
    _, output = Part(*arguments(tmp_path / "test_a.py", FAILS + LONG)).wait()

    first, *others, last = what_failed(output)

    assert first == "E       AssertionError: assert 'this' == 'that'"
    assert [line for line in others if line.startswith("FAILED")] != []
    assert "2 failed" in last
    assert max(map(len, others)) == LONGEST_LINE + 1


def test_it_lets_others_go_first(tmp_path: Path) -> None:
    ours = os.nice(0)
    assert Part(*arguments(tmp_path / "test_a.py", NICE.format(ours))).wait()[0] == 0
    assert Part(*arguments(tmp_path / "test_a.py", NICE.format(min(ours + 3, 19))), niceness=3).wait()[0] == 0


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_its_end_is_the_orderly_end_of_all_its_processes(tmp_path: Path, handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        ends_orderly(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def ends_orderly(tmp_path: Path) -> None:
    reached, ended = tmp_path / "reached", tmp_path / "ended"
    part = Part(*arguments(tmp_path / "test_a.py", WAITS.format(str(reached), str(ended))))
    wait_until("its start", reached.exists, timeout=100)
    part.end()
    code, _ = part.wait()
    assert code == pytest.ExitCode.INTERRUPTED
    assert ended.exists(), "what it had to take down"
    wait_until("the end of all", lambda: not there(part.pid), timeout=30)
    part.end()


def there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
