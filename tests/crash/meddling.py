"""Somebody else changes a path on the node in the middle of a run, in any way that a disk knows.

The node is that of the power cuts: files, plan and journal are the real adapters' on a modelled disk. The executor is
started as by systemd, and an agent tells it what the API server shows.
"""

import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

import pytest

from nodeupgrade.errors import Inconsistent, NodeUpgradeError
from nodeupgrade.node.executor import process, units
from nodeupgrade.node.executor.control import earlier_run_refusal
from nodeupgrade.node.failpoints.failpoints import Failpoint, When
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.names_beside import ASIDE
from nodeupgrade.node.plan.plan import Newcomers
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.run import NodeRun
from nodeupgrade.node.verification.verification import differences
from tests.crash.harness import World, mixtures
from tests.crash.machine import RUNS, Machine
from tests.doubles.node.kubelet import is_program, program
from tests.doubles.node.storage.disk import Inode, ModelDisk
from tests.doubles.node.storage.reading import readable

STRANGER = program("v1.31.1")
GARBAGE = b"\xff\xfe\x00garbage\n"
HUGE = 2 * 1024**3
"""Bytes. More than is read of any file."""
PUT_RIGHT_SECONDS = 600.0
"""From the change until a person puts right what the run waits for."""
STUCK_SECONDS = 900.0
AGENT_SECONDS = 1.0
RESTARTS = 300
DIRECTORY, THEIRS = "a directory", "theirs"
READ_ONLY = "read-only directory"


class Stuck(BaseException):
    """The run does not end. Not an Exception: nothing in the program may catch it."""


class WatchedDisk(ModelDisk):
    """A disk that counts how often each path was looked at or changed, directories apart."""

    def __init__(self) -> None:
        self.touched = Counter[str]()
        super().__init__()

    def _find(self, path: PurePath, *, follow: bool = True) -> int | None:
        found = super()._find(path, follow=follow)
        if found is None or not stat.S_ISDIR(self._inodes[found].mode):
            self.touched[str(path)] += 1
        return found


# --- what somebody does ---------------------------------------------------------------------------------------------

Change = Callable[[WatchedDisk, str], Callable[[], None] | None]
"""Changes what is at a path and returns what takes that back; ``None`` if there is nothing to change."""
WHENS = frozenset({When.ANNOUNCED, When.DONE, When.UNDOING})


def _exchange(new: Callable[[Inode | None], Inode | None]) -> Change:
    """Put another file or something else in place, as by a rename."""

    def change(disk: WatchedDisk, path: str) -> Callable[[], None] | None:
        before = disk.at(path)
        made = new(before)
        if (made is None and before is None) or not _is_directory(disk.at(str(PurePath(path).parent))):
            return None
        disk.make(path, made)

        def put_right() -> None:
            if disk.at(path) is made and _is_directory(disk.at(str(PurePath(path).parent))):
                disk.make(path, before)

        return put_right

    return change


def _is_directory(inode: Inode | None) -> bool:
    return inode is not None and stat.S_ISDIR(inode.mode)


def _of_file(change: Callable[[Inode], None]) -> Change:
    """Change the file itself, under all its names."""

    def changed(disk: WatchedDisk, path: str) -> Callable[[], None] | None:
        inode = disk.at(path)
        if inode is None or not stat.S_ISREG(inode.mode):
            return None
        data = inode.data
        change(inode)
        inode.changed = disk.clock()

        def put_right() -> None:
            inode.broken = False
            inode.data = inode.kept_data = data

        return put_right

    return changed


def _write(data: bytes) -> Callable[[Inode], None]:
    def write(inode: Inode) -> None:
        inode.data = inode.kept_data = data

    return write


def _break(inode: Inode) -> None:
    inode.broken = True


def _other(before: Inode | None) -> Inode | None:
    data = b"" if before is None else before.data
    return _file(STRANGER if is_program(data) else data + b"\n")


def _file(data: bytes = b"", *, holes: int = 0) -> Inode:
    return Inode(mode=stat.S_IFREG | 0o755, data=data, holes=holes)


def _always(mode: int, data: bytes = b"") -> Change:
    return _exchange(lambda _: Inode(mode=mode | 0o755, data=data))


def _moved(disk: WatchedDisk, path: str) -> Callable[[], None] | None:
    """Keep the file elsewhere, and put a link to it in its place."""
    before = disk.at(path)
    if before is None or not stat.S_ISREG(before.mode):
        return None
    disk.put(f"/opt/moved{path}", before.data)
    return _always(stat.S_IFLNK, f"/opt/moved{path}".encode())(disk, path)


def _directory(disk: WatchedDisk, path: str) -> Callable[[], None] | None:
    put_right = _always(stat.S_IFDIR)(disk, path)
    if put_right is not None:
        disk.put(f"{path}/{THEIRS}", b"theirs")
    return put_right


def _read_only(disk: WatchedDisk, path: str) -> Callable[[], None] | None:
    directory = str(PurePath(path).parent)
    disk.read_only.add(directory)
    return lambda: disk.read_only.discard(directory)


FORMS: dict[str, Change] = {
    "removed": _exchange(lambda _: None),
    "emptied": _of_file(_write(b"")),
    "replaced": _exchange(_other),
    "garbage": _exchange(lambda _: _file(GARBAGE)),
    "garbage in place": _of_file(_write(GARBAGE)),
    DIRECTORY: _directory,
    "a dangling link": _always(stat.S_IFLNK, b"/nowhere/at/all"),
    "a link to itself": lambda disk, path: _always(stat.S_IFLNK, PurePath(path).name.encode())(disk, path),
    "a link to it": _moved,
    "a pipe": _always(stat.S_IFIFO),
    "a socket": _always(stat.S_IFSOCK),
    "unreadable": _of_file(_break),
    "huge": _exchange(lambda _: _file(holes=HUGE)),
    READ_ONLY: _read_only,
}


@dataclass(frozen=True)
class Case:
    """One change of one path, at one moment of a run."""

    path: str
    form: str
    moment: int  # the number of a failpoint
    name: Failpoint
    turns_back: bool

    def __str__(self) -> str:
        return f"{self.path} {self.form} at {self.name} ({self.moment})"


def cases(*, turns_back: bool) -> Iterator[Case]:
    """Yield every form of every path that a run touches, once for each time that it touches it."""
    node, seen = Meddled(turns_back=turns_back), dict[int, Counter[str]]()

    def look(number: int, name: Failpoint) -> None:
        if name.rpartition(".")[2] in WHENS:
            seen[number] = node.watched.touched.copy()

    node.act = look
    node.upgrade()
    end = node.touched
    for path in sorted(path for path in end if not any(other.startswith(f"{path}/") for other in end)):
        for form in FORMS:
            tried = set[object]()
            for number, counts in seen.items():
                key = _touches(counts, path, form)
                if key != _touches(end, path, form) and key not in tried:
                    tried.add(key)
                    yield Case(path, form, number, node.passed[number], turns_back)


def case_at(path: str, form: str, name: Failpoint) -> Case:
    """Return a case on the longest way there is."""
    node = Meddled(turns_back=True)
    node.upgrade()
    return Case(path, form, node.passed.index(name), name, turns_back=True)


def _touches(counts: Counter[str], path: str, form: str) -> object:
    """Return how often what is changed was touched: between two times, it does not matter when it is changed."""
    if form == READ_ONLY:
        directory = f"{PurePath(path).parent}/"
        return sum(count for each, count in counts.items() if each.startswith(directory))
    if form == "garbage in place" and "kubelet" in path:  # it has several names
        return counts.total()
    return counts[path]


# --- the node ------------------------------------------------------------------------------------------------------


class Meddled(Machine):
    """A node, and somebody who changes one path at one moment.

    Attributes:
        passed: the failpoints that were passed.
        act: called at each of them.
        died: why an executor ended before its run.
        needed: what the run said when a person had to put things right; ``None`` if none had to.
        in_vain: whether the run waited for a directory to be writable in which everything is as it was.
    """

    def __init__(self, *, turns_back: bool) -> None:
        self.watched = WatchedDisk()
        super().__init__(turns_back=turns_back, disk=self.watched)
        self.passed: list[Failpoint] = []
        self.case: Case | None = None
        self.act: Callable[[int, Failpoint], None] = lambda _number, _name: None
        self.died: list[str] = []
        self.needed: str | None = None
        self.in_vain = False
        self.over = False
        self.disk.clock = lambda: self.node.timeline.nanoseconds
        self.runs = RunStore(RUNS, disk=self.disk, lock=lambda _: None)
        self.node.shield.amended = lambda plan: plan

    def _pass(self, name: Failpoint) -> None:
        self.passed.append(name)
        self.act(len(self.passed) - 1, name)

    def meddle(self, case: Case) -> bool:
        """Have the path changed at its moment, and run to the end; report whether there was anything to change."""
        self.case = case
        done = list[Callable[[], None] | None]()

        def act(number: int, _name: Failpoint) -> None:
            if number == case.moment and not done:
                put_right = FORMS[case.form](self.watched, case.path)
                done.append(put_right)
                if put_right is None:
                    raise Stuck
                self.node.timeline.after(PUT_RIGHT_SECONDS, lambda: self._put_right(put_right))

        self.act = act
        with suppress(Stuck):
            self.upgrade()
        return done not in ([], [None])

    def _put_right(self, put_right: Callable[[], None]) -> None:
        if self.over:
            return
        self.needed, self.in_vain = self.said(), self._is_old_beside()
        put_right()
        self.node.services.read_unit_files()

        def give_up() -> None:
            if not self.over:
                raise Stuck

        self.node.timeline.after(STUCK_SECONDS, give_up)

    def _is_old_beside(self) -> bool:
        """Whether all files in the directory of the changed path are as they were, but hidden ones of the run."""
        below = f"{PurePath(self.case.path).parent}/" if self.case is not None else "/"
        now = {path: readable(self.node.disk, path) for path in self.disk.paths()}
        paths = [path for path in now.keys() | self.before.keys() if path.startswith(below)]
        return all(now.get(path) == self.before.get(path) or "/." in path for path in paths)

    def wrongs(self) -> list[str]:
        """Everything that is neither OLD nor NEW, every instance that is another one, and every executor that died."""
        if self.report is None:
            return [f"the run does not end: {self.said()}"]
        self.disk.read_only.clear()
        said, found = self.said(), list[str]()
        paths = self.disk.paths()
        there = any(path.endswith(f"/{THEIRS}") for path in paths) or self.needed is not None
        if self.case is not None and self.case.form == DIRECTORY and not there:
            found.append("what somebody put there is lost")
        for path in paths:
            if ASIDE in path and not path.startswith("/run/") and path.removesuffix(f"/{THEIRS}") not in said:
                found.append(f"it is not said what was moved to {path}")
            if ASIDE in path or (path not in self.node.disk) or readable(self.node.disk, path) is None:
                self.disk.make(path, None)
        after = World(self.node, self.plan, self.before)
        found += [f"the executor died: {why}" for why in self.died]
        found += mixtures(after, upgraded=self.report.outcome is Outcome.UPGRADED)
        found += self.node.kubelet.replaced
        found += map(str, differences(self.plan.baseline, self.node.inventory()))
        return found + (
            [f"a person is needed: {self.report.message}"] if self.report.outcome is Outcome.DEGRADED else []
        )

    def said(self) -> str:
        """What the run says, wherever a person would read it."""
        said = list[str | None](self.died[-1:])
        try:
            said += [record.error for record in self.runs.read_journal(self.plan.run_id).records]
        except Inconsistent as error:  # as the agent says
            said.append(str(earlier_run_refusal(error)))
        with suppress(NodeUpgradeError, OSError):
            said.append(self.runs.trouble(self.plan.run_id))
        return "\n".join(filter(None, said))

    def finish(self) -> None:
        """Start the executor until its run is over, as systemd and the dead man do; then the agent cleans up."""
        self._report_kubelet()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "RunStore", lambda _: self.runs)
            patch.setattr(process, "node_on_host", lambda _: self.ports)
            patch.setattr(process, "failpoints", lambda *_: self._pass)
            patch.setattr("gc.freeze", lambda: None)
            patch.setattr(NodeRun, "carry_out", self._reporting(NodeRun.carry_out))
            for _ in range(RESTARTS):
                self._execute()
                if self.report is not None:
                    break
                self.node.timeline.advance(units.DEAD_MAN_SECONDS)
        self.over = True
        self.touched = self.watched.touched.copy()
        with suppress(NodeUpgradeError):
            units.remove(self.files, self.node.services, self.plan.swap.unit, [self.node.runtime.kind])
        for path in self.plan.temporary(keeping_old=False):
            with suppress(NodeUpgradeError):
                self.files.remove(PurePosixPath(path))

    def _execute(self) -> None:
        """Run the executor once."""
        try:
            code = process.main()
        except Exception as error:  # noqa: BLE001 - systemd starts it again, whatever it is
            self.died.append(f"{type(error).__name__}: {error}")
        else:
            self.died += [f"exit code {code}"] if code else []

    def _reporting(self, carry_out: Callable[[NodeRun], RunReport]) -> Callable[[NodeRun], RunReport]:
        """Keep the report: somebody may have put something in place of the journal that has it."""

        def carried_out(run: NodeRun) -> RunReport:
            self.report = carry_out(run)
            return self.report

        return carried_out

    def _report_kubelet(self) -> None:
        """What an agent does each second."""
        run = self.plan.run_id
        with suppress(NodeUpgradeError, OSError):
            if (shown := self.node.kubelet.api.shown()) is not None:
                self.runs.report_kubelet(run, shown)
            if self.runs.newcomers_wanted(run):
                self.runs.report_newcomers(run, Newcomers())
        if not self.over:
            self.node.timeline.after(AGENT_SECONDS, self._report_kubelet)
