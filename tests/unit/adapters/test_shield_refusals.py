"""What the shield's process writes down, and what the executor reads, also where there is no space."""

import errno
import os
from pathlib import Path

import pytest

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.rules import REFUSED, RefusedCall

CALL = RefusedCall(at="now", monotonic=5.0, method="StopContainer", instance="c1", label="a/web/c", wanted="stop")


@pytest.fixture
def log(tmp_path: Path) -> ShieldRecords:
    found = ShieldRecords(tmp_path, now=lambda: AwakeTime(77.0))
    found.prepare()
    assert found.refused() == ()
    return found


@pytest.mark.parametrize("written", [0, 10], ids=["nothing", "a part"])
def test_a_line_for_which_there_is_no_space_leaves_a_trace(
    log: ShieldRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    log.refuse(CALL)
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:written])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        log.refuse(CALL)
        log.refuse(CALL)
    assert [call.monotonic for call in log.refused()] == [5.0, 77.0, 77.0]
    log.refuse(CALL)

    for reader in (log, ShieldRecords(tmp_path, now=lambda: AwakeTime(99.0))):
        found = reader.refused()
        assert len(found) == 4
        assert (found[0], found[3]) == (CALL, CALL)
        assert all(str(call).startswith("end something") for call in found[1:3])


def test_a_line_that_is_being_written_is_read_later(log: ShieldRecords, tmp_path: Path) -> None:
    log.refuse(CALL)
    whole = (tmp_path / REFUSED.name).read_bytes()
    with (tmp_path / REFUSED.name).open("ab") as stream:
        stream.write(whole[:7])
        stream.flush()
        assert log.refused() == (CALL,)
        stream.write(whole[7:])
    assert log.refused() == (CALL, CALL)


def test_where_nothing_at_all_can_be_written_it_fails(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        ShieldRecords(tmp_path / "gone").refuse(CALL)
