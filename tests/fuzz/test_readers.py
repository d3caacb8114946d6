"""Whatever others write on a node is read as it is, or is an error with a name, and soon."""

import ast
import contextlib
import os
import time
from itertools import product
from pathlib import Path, PurePosixPath
from random import Random

import pytest

from nodeupgrade.node.host.files.mounts import mounts
from nodeupgrade.node.host.processes.processes import ProcessTable, parse_stat
from nodeupgrade.node.journal import journal, scrubbing
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.runtimes.socket_clients import listening_sockets
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.shield import RefusedCall
from tests.builders.checkout import CHECKOUT
from tests.builders.hostile_text import LARGE, hostile, pieces
from tests.builders.journal_records import record
from tests.fuzz.readers import ELSEWHERE, READERS, RUN, STAT, UNIX, Reader, put

PACKAGE = CHECKOUT / "operator" / "nodeupgrade"
TAKE_APART = {
    "nodeupgrade.text": {"lines", "words", "number", "integer", "parse_json", "parse_toml"},
    "nodeupgrade.api.yaml": {"read_one", "read_first", "read_all"},
}
MOST_SECONDS = 10.0  # of a processor: machines that run tests are shared
"""Enough for a machine that is busy; what takes longer grows faster than its text."""
LARGE_ONES = [reader for reader in READERS if not (reader.slow or reader.only_root)]
TEXTS, TEXTS_OF_SLOW_ONES = 200, 12


def texts(reader: Reader) -> list[bytes]:
    """Return the same texts each time: all pieces for quick readers, some for slow ones."""
    found = list(hostile(reader.valid, seed=49, number=TEXTS))
    if reader.slow:
        found = [*reader.valid, *Random(49).sample(found, TEXTS_OF_SLOW_ONES)]
    return [each for each in found if len(each) < LARGE]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.module}-{reader.what}")
def test_every_text_is_read_or_is_an_error_with_a_name(reader: Reader, tmp_path: Path) -> None:
    for number, (text, read) in enumerate(product(texts(reader), reader.reads)):
        place = tmp_path / str(number)
        place.mkdir()
        began = time.process_time()
        try:
            read(text, place)
        except reader.errors:
            pass
        except Exception as error:  # noqa: BLE001 - it is to be told with its text
            pytest.fail(f"{error!r} of {text[:300]!r}")
        assert time.process_time() - began < MOST_SECONDS, text[:300]


@pytest.mark.parametrize("reader", LARGE_ONES, ids=lambda reader: f"{reader.module}-{reader.what}")
def test_megabytes_take_seconds_at_most(reader: Reader, tmp_path: Path) -> None:
    """One text for each, so that all have their turn within a minute."""
    number = LARGE_ONES.index(reader)
    part = (b"x", b"\n", b"1", b" ", reader.valid[0], b"a\n")[number % 6]
    began = time.process_time()
    for read in reader.reads:
        with contextlib.suppress(*reader.errors):
            read(part * (LARGE // len(part)), tmp_path)
    assert time.process_time() - began < MOST_SECONDS


def test_no_module_that_reads_is_missing() -> None:
    reading = set()
    for path in (each for top in ("node", "kubelet") for each in (PACKAGE / top).rglob("*.py")):
        imports = (each for each in ast.walk(ast.parse(path.read_bytes())) if isinstance(each, ast.ImportFrom))
        if any({each.name for each in found.names} & TAKE_APART.get(found.module or "", set()) for found in imports):
            reading.add(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    assert reading - {each.module for each in READERS} - ELSEWHERE.keys() == set()
    assert ELSEWHERE.keys() - reading == set()
    assert ELSEWHERE.keys() & {each.module for each in READERS} == set()


def names() -> list[str]:
    """Return what a name may be on Linux: the pieces of the corpus without NUL, and each within others."""
    found = [each.decode(errors="surrogateescape") for each in pieces() if len(each) < 200]
    return [f"a{each}b" for each in found if "\0" not in each]


def in_a_mount_table(name: str) -> object:
    for number, sign in ((134, "\\"), (40, " "), (11, "\t"), (12, "\n")):
        name = name.replace(sign, f"\\{number:03}")
    table = f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:1 /{name} /{name} ro - ext4 {name} rw\n3 1 0:1 / /z rw - ext4 x rw\n"
    _, found, _ = mounts(table)
    return found.source[1].relative_to("/"), found.point.relative_to("/"), "ro" in found.options


def in_the_status_of_a_process(name: str) -> object:
    found = parse_stat(STAT.decode().replace("(name)", f"({name})"))
    return found.command, found.parent, found.started


def in_arguments(name: str, place: Path) -> object:
    put(place / "7/cmdline", os.fsencode(f"{name}\0{name}\0"))
    put(place / "7/environ", os.fsencode(f"A={name}\0B=1\0"))
    return ProcessTable(place).arguments(7), ProcessTable(place).environment(7)


def in_the_list_of_sockets(name: str) -> object:
    whole = UNIX.decode().replace("@abstract", f"@{name}").replace("containerd.sock", name)
    return [path for _, path in listening_sockets(whole)]


def in_a_journal(name: str) -> object:
    written = b"".join(map(journal.render, (record(1, error=name), record(2, payload={name: name}))))
    first, second = journal.parse(written)[0].records
    return first.error, second.payload, scrubbing.without_images(written) == written


def in_what_the_shield_records(name: str, place: Path) -> object:
    call = RefusedCall(at=name, monotonic=1.0, method="m", instance="i", label=name, wanted="stop")
    records = ShieldRecords(place)
    records.prepare()
    records.record_refusal(call)
    records.record_refusal(call)
    return records.refused() == (call, call)


def in_messages(name: str, place: Path) -> object:
    runs = RunStore(place / "runs")
    put(place / "runs" / RUN / "x", b"")
    runs.report_trouble(RUN, name)
    return runs.trouble(RUN)


def test_a_name_is_read_as_it_is_and_nothing_beside_it_changes(tmp_path: Path) -> None:
    for number, name in enumerate(names()):
        place = tmp_path / str(number)
        place.mkdir()
        if "/" not in name:
            assert in_a_mount_table(name) == (PurePosixPath(name), PurePosixPath(name), True), name
        assert in_the_status_of_a_process(name) == (name, 1, 12345), name
        assert in_arguments(name, place) == ((name, name), {"A": name, "B": "1"}), name
        if "1 /run" not in name:  # which looks like a socket, and adds one
            assert in_the_list_of_sockets(name) == [PurePosixPath("/run/containerd", name)], name
        assert in_a_journal(name) == (name, {name: name}, True), name
        assert in_what_the_shield_records(name, place), name
        readable = name.encode(errors="backslashreplace").decode()
        assert in_messages(name, place) == readable, name
