"""What runs beside the tests on nodes: its output is shown, its failure counts, and it ends with the rest."""

import os
import threading
from pathlib import Path

import pytest

from tools.run_tests import Beside

PASSES = "def test_it() -> None:\n    assert True\n"
FAILS = "def test_it() -> None:\n    assert 'this' == 'that'\n"
WAITS = "import time\nfrom pathlib import Path\ndef test_it() -> None:\n    Path({!r}).touch()\n    time.sleep(600)\n"


def arguments(path: Path, content: str) -> tuple[str, ...]:
    path.write_text(content)
    return ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(path.parent), str(path))


def test_each_part_runs_and_what_failed_is_remembered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    beside = Beside()
    beside.run(arguments(tmp_path / "test_a.py", FAILS), arguments(tmp_path / "test_b.py", PASSES))
    ((code, output),) = beside.failed
    assert code == 1
    assert "'this' == 'that'" in output
    shown = capfd.readouterr().out
    assert "1 failed" in shown
    assert "1 passed" in shown


def test_its_end_is_the_end_of_all_its_processes_and_no_further_part_begins(tmp_path: Path) -> None:
    beside, reached = Beside(), tmp_path / "reached"
    waits = arguments(tmp_path / "test_a.py", WAITS.format(str(reached)))
    running = threading.Thread(target=beside.run, args=(waits, arguments(tmp_path / "test_b.py", PASSES)))
    running.start()
    while running.is_alive() and not reached.exists():
        running.join(0.05)
    assert reached.exists(), beside.failed
    beside.end()
    running.join()
    assert [code for code, _ in beside.failed] == [-15]
    assert beside.running is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(beside.running.pid, 0)
