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


@pytest.mark.parametrize(("content", "code", "said"), [(PASSES, 0, "1 passed"), (FAILS, 1, "'this' == 'that'")])
def test_its_output_is_shown_and_its_exit_code_returned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, code: int, said: str
) -> None:
    beside = Beside(arguments(tmp_path / "test_it.py", content), niceness=1)
    assert beside.wait() == code
    assert said in beside.output
    assert said in capfd.readouterr().out


def test_its_end_is_the_end_of_all_its_processes(tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    beside, codes = Beside(arguments(tmp_path / "test_it.py", WAITS.format(str(reached))), niceness=1), list[int]()
    waiting = threading.Thread(target=lambda: codes.append(beside.wait()))
    waiting.start()
    while waiting.is_alive() and not reached.exists():
        waiting.join(0.05)
    assert reached.exists(), beside.output
    beside.end()
    waiting.join()
    assert codes == [-15]
    with pytest.raises(ProcessLookupError):
        os.killpg(beside.pid, 0)
