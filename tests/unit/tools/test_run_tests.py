"""What runs beside the tests on nodes: its output is shown, its failure counts, and it ends with the rest."""

import os
from pathlib import Path

import pytest

from e2e.lab.process import wait_until
from tools.run_tests import Beside

PASSES = "def test_it() -> None:\n    assert True\n"
FAILS = "def test_it() -> None:\n    assert 'this' == 'that'\n"
WAITS = """
import subprocess, time
from pathlib import Path

def test_it() -> None:
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        Path({!r}).touch()
        time.sleep(600)
"""
NICE = "import os\ndef test_it() -> None:\n    assert os.nice(0) == {}\n"


def arguments(path: Path, content: str) -> tuple[str, ...]:
    path.write_text(content)
    return ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(path.parent), str(path))


@pytest.mark.parametrize(("content", "expected", "said"), [(PASSES, 0, "1 passed"), (FAILS, 1, "'this' == 'that'")])
def test_its_output_is_shown_and_its_failure_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, expected: int, said: str
) -> None:
    code, output = Beside(*arguments(tmp_path / "test_a.py", content)).wait()
    assert code == expected
    assert said in output
    assert output in capfd.readouterr().out


def test_it_lets_others_go_first(tmp_path: Path) -> None:
    ours = os.nice(0)
    assert Beside(*arguments(tmp_path / "test_a.py", NICE.format(ours))).wait()[0] == 0
    assert Beside(*arguments(tmp_path / "test_a.py", NICE.format(min(ours + 3, 19))), niceness=3).wait()[0] == 0


def test_its_end_is_the_end_of_all_its_processes(tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    beside = Beside(*arguments(tmp_path / "test_a.py", WAITS.format(str(reached))))
    wait_until("its start", reached.exists, timeout=100)
    beside.end()
    code, _ = beside.wait()
    assert code == -15
    wait_until("the end of all", lambda: not there(beside.pid), timeout=30)
    beside.end()


def there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
