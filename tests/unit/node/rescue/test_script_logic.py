"""Each call of the rescue script that goes wrong: it says nothing that is not so, and ends well or is still trying.

This is a part; ``python -m tools.enumerate_rescue`` lets every call go wrong in every way.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.builders.rescue_enumeration import DONE, SITUATIONS, TRYING, Situation, calls, ending, faults
from tests.builders.rescue_rig import Fault, Mode
from tests.enumeration import tried

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")

ALONE = SITUATIONS[0]
TOOLS_STRUCK = ("flock", "mv", "sha256sum", "cp", "grep")
"""One of the many places at which each is called is enough here."""


@pytest.mark.parametrize("situation", SITUATIONS, ids=["alone", "with a spare"])
@pytest.mark.parametrize("mode", [Mode.SILENT, Mode.KILLED])
def test_systemctl_goes_wrong_once_at_each_place(situation: Situation, mode: Mode) -> None:
    made = _calls(situation)
    struck = [(call, fault) for call, fault in faults(made, [mode]) if fault.number and call.startswith("systemctl")]
    ended = {f"{call} ({fault.number})": _ending(situation, fault) for call, fault in tried(struck, 2)}

    assert len(struck) > 5
    assert {call: end for call, end in ended.items() if end != DONE} == {}


@pytest.mark.parametrize("mode", Mode)
def test_whatever_goes_wrong_always_ends_well_once_it_is_mended(mode: Mode) -> None:
    ended = {tool: _ending(ALONE, Fault(mode, command=tool)) for tool in (*TOOLS_STRUCK, "systemctl")}

    assert {tool: end for tool, end in ended.items() if end not in {DONE, TRYING}} == {}


@pytest.mark.parametrize("mode", [Mode.SILENT, Mode.FAILING])
def test_a_file_that_could_not_be_read_is_not_taken_for_one_that_somebody_changed(mode: Mode) -> None:
    made = _calls(ALONE)
    reading = [number for number, call in enumerate(made, 1) if call == "sha256sum"][:6]
    ended = {number: _ending(ALONE, Fault(mode, number=number)) for number in reading}

    assert set(ended.values()) == {DONE}


def _calls(situation: Situation) -> tuple[str, ...]:
    with TemporaryDirectory() as directory:
        return calls(situation, Path(directory) / "node")


def _ending(situation: Situation, fault: Fault) -> str:
    with TemporaryDirectory() as directory:  # pytest's are too long for a socket's path
        return ending(situation, Path(directory) / "node", fault)
