"""Tests for the records that the shield writes and the executor reads."""

import errno
import json
import os
from pathlib import Path

import pytest

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.shield import REFUSED, RefusedCall
from nodeupgrade.node.shield.socket_exchange import HostShield
from tests.builders.shield_sockets import RUNTIME

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
    log.record_refusal(CALL)
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:written])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        log.record_refusal(CALL)
        log.record_refusal(CALL)
    assert [call.monotonic for call in log.refused()] == [5.0, 77.0, 77.0]
    log.record_refusal(CALL)

    for reader in (log, ShieldRecords(tmp_path, now=lambda: AwakeTime(99.0))):
        found = reader.refused()
        assert len(found) == 4
        assert (found[0], found[3]) == (CALL, CALL)
        assert all(str(call).startswith("end something") for call in found[1:3])


def test_a_line_that_is_being_written_is_read_later(log: ShieldRecords, tmp_path: Path) -> None:
    log.record_refusal(CALL)
    whole = (tmp_path / REFUSED.name).read_bytes()
    with (tmp_path / REFUSED.name).open("ab") as stream:
        stream.write(whole[:7])
        stream.flush()
        assert log.refused() == (CALL,)
        stream.write(whole[7:])
    assert log.refused() == (CALL, CALL)


def test_where_nothing_at_all_can_be_written_it_fails(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        ShieldRecords(tmp_path / "gone").record_refusal(CALL)


STOP_CALL = RefusedCall(
    at="2026-01-01T00:00:00.000Z", monotonic=12.5, method="StopContainer", instance="c1", label="a/b/c", wanted="stop"
)


def test_refused_calls_are_read_as_they_were_written(tmp_path: Path) -> None:
    written, read = ShieldRecords(tmp_path), HostShield(tmp_path / RUNTIME, tmp_path)
    assert read.refused() == ()
    for count in range(1, 4):
        written.record_refusal(STOP_CALL)
        assert read.refused() == (STOP_CALL,) * count
    assert (tmp_path / REFUSED.name).stat().st_mode & 0o777 == 0o600


def test_the_log_is_read_only_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ShieldRecords(tmp_path)
    log.record_refusal(STOP_CALL)
    assert log.refused() == (STOP_CALL,)
    monkeypatch.setattr(Path, "read_bytes", lambda _path: pytest.fail("it was read again"))
    assert log.refused() == (STOP_CALL,)


def test_a_line_that_cannot_be_read_counts_and_a_part_of_one_does_not(tmp_path: Path) -> None:
    (tmp_path / REFUSED.name).write_text('{"at": 3}\n' + json.dumps({"at": "x"})[:5])
    [found] = ShieldRecords(tmp_path).refused()
    assert '{"at": 3}' in found.label
