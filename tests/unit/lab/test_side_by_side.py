"""How many labs the tests run in at once, and in which order."""

from pathlib import Path

import pytest

from e2e.conftest import LONGEST_FIRST
from tools.run_tests import labs_at_once

GIBIBYTE = 1 << 20
END_TO_END = Path(__file__).parents[3] / "e2e"


@pytest.mark.parametrize(
    ("processors", "gibibytes", "inotify", "labs"),
    [
        pytest.param(2, 20, 128, 2, id="as CI has it"),
        pytest.param(16, 128, 128, 3, id="a kernel that was not told to allow more"),
        pytest.param(16, 128, 1024, 16, id="a large machine"),
        pytest.param(16, 7, 1024, 2, id="little memory"),
        pytest.param(2, 1, 128, 1, id="less than one lab should have"),
        pytest.param(2, 20, 40, 1, id="hardly any watches"),
    ],
)
def test_as_many_labs_as_the_machine_has_room_for(processors: int, gibibytes: int, inotify: int, labs: int) -> None:
    assert labs_at_once(processors=processors, memory=gibibytes * GIBIBYTE, inotify=inotify) == labs


def test_the_modules_that_are_said_to_be_longest_are_there() -> None:
    assert set(LONGEST_FIRST) <= {path.name for path in END_TO_END.glob("test_*.py")}
