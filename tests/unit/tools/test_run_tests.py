"""The parts of all tests: their output is shown, what failed is told, and they end with all that they started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.lab.process import wait_until
from e2e.lanes import LANE, LANES
from tools.run_tests import LONGEST_LINE, Part, what_failed
from tools.wheels import CHECKOUT

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
ALL = """
import sys
from tools import run_tests

vars(run_tests).update({}, what_the_lab_lacks=str)
sys.exit(run_tests.main())
"""
NICE = "import os\ndef test_it() -> None:\n    assert os.nice(0) == {}\n"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part needs plugins, which take longer to load than everything else takes."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


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


def test_its_end_is_the_orderly_end_of_all_its_processes(tmp_path: Path) -> None:
    reached, ended = tmp_path / "reached", tmp_path / "ended"
    with in_the_background():
        part = Part(*arguments(tmp_path / "test_a.py", WAITS.format(str(reached), str(ended))))
    wait_until("its start", reached.exists, timeout=100)
    part.end()
    code, _ = part.wait()
    assert code == pytest.ExitCode.INTERRUPTED
    assert ended.exists(), "what it had to take down"
    wait_until("the end of all", lambda: not there(part.pid), timeout=30)
    part.end()


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_all_parts_end_so_when_it_is_asked_to_end(tmp_path: Path, asked: signal.Signals) -> None:
    on_nodes = [f"NODES-{lane}" for lane in LANES]
    names = ["FAST", "CONTRACTS", *on_nodes]
    for name in names:
        content = WAITS.format(str(tmp_path / f"{name}-reached"), str(tmp_path / f"{name}-ended"))
        (tmp_path / f"test_{name}.py").write_text(content)
    options = ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path))
    parts = {name: (*options, str(tmp_path / f"test_{name}.py")) for name in ("FAST", "CONTRACTS")}
    modules = [str(tmp_path / f"test_{name}.py") for name in on_nodes]
    program = (sys.executable, "-c", ALL.format({**parts, "NODES": (*options, "-p", "e2e.lanes", *modules)}))
    with in_the_background():
        running = subprocess.Popen(program, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    with running:
        wait_until("all parts", lambda: all((tmp_path / f"{n}-reached").exists() for n in names), timeout=200)
        running.send_signal(asked)
        output, _ = running.communicate()

    assert running.returncode != 0
    assert len(names) == len(list(tmp_path.glob("*-ended"))) == 5, "what they had to take down"
    assert output.count("KeyboardInterrupt") >= len(names)


SAYS = """
import pytest

@pytest.fixture(scope="session")
def say():
    def say(what: str) -> None:
        with open({told!r}, "a") as file:
            print(what, file=file)

    yield say
    say("end")
"""
TOLD = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def own(say):
    say("{name}")
    yield
    say("/{name}")

@pytest.mark.parametrize("number", range(2))
def test_it(say, number: int) -> None:
    say("{name}" + str(number))
"""


def modules(tmp_path: Path, told: Path) -> tuple[str, ...]:
    """Write three modules of two tests, and return pytest's arguments."""
    (tmp_path / "conftest.py").write_text(SAYS.format(told=str(told)))
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(TOLD.format(name=name))
    taken = tmp_path / "taken"
    taken.mkdir()
    options = ("-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib", "--rootdir", str(tmp_path))
    return (*options, "-p", "e2e.lanes", "--taken", str(taken), *(str(tmp_path / f"test_{name}.py") for name in "abc"))


def test_each_module_is_run_by_one_of_them(tmp_path: Path) -> None:
    told = tmp_path / "told"
    argv = modules(tmp_path, told)
    with (tmp_path / "test_b.py").open("a") as file:
        file.write("    assert number == 0\n")
    ended = [part.wait() for part in [Part(*argv, LANE, lane) for lane in LANES]]

    assert sorted(code for code, _ in ended) == [0, 0, 1], "what fails fails where it is run"
    ran = told.read_text().split()
    assert sorted(each for each in ran if each[-1].isdigit()) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert sorted(each for each in ran if each.isalpha() and each != "end") == ["a", "b", "c"], "its fixtures, once"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "a a0 a1 /a c c0 c1 /c end"),
        ((LANE, "second"), "a a0 a1 /a c c0 c1 /c end"),
        ((LANE, "last"), "c c0 c1 /c a a0 a1 /a end"),
    ],
)
def test_what_another_run_has_taken_is_left_to_it(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    told = tmp_path / "told"
    argv = modules(tmp_path, told)
    (tmp_path / "taken/test_b.py").touch()

    assert Part(*argv, *options).wait()[0] == 0
    assert told.read_text().split() == expected.split()


@contextmanager
def in_the_background() -> Iterator[None]:
    """Start processes as a shell starts those that end with an ampersand: they ignore SIGINT at first."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
