"""The executor's entry point: which run it takes up, what it tells systemd and when, and how it ends."""

import errno
import fcntl
import itertools
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity, RunId
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node import exit_codes
from nodeupgrade.node.executor import journal_lock, process, units
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.journal.journal import JOURNAL_SCHEMA, Mark, Outcome, Record, render
from nodeupgrade.node.journal.messages import ABORT
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.journal.run_store import END, GO_ON
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import Limits, RunPlan, ShownKubelet
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.run import NodeRun
from tests.builders.other_files import KINDS, put_in_place
from tests.doubles.node import Crash, Moment, SimulatedNode, plan_for, pod_json
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.planning import STAGED
from tests.enumeration import tried

OLD, NEW = "v1.30.14", "v1.33.13"
RUN = RunId("run-1")
BOOT = BootIdentity("another one")


class Host:
    """A node on which systemd starts the executor."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "runs"
        self.node = SimulatedNode(version=OLD, pods=[pod_json("web", "nginx")])
        self.plan = plan_for(self.node, NEW, run=RUN, limits=Limits(settle=2.0))
        self.runs = RunStore(self.root)
        self.ready_after: list[int] = []
        monkeypatch.setattr(process, "RUNS", self.root)
        monkeypatch.setattr(process, "notify_ready", self._ready)
        monkeypatch.setattr("nodeupgrade.node.executor.process.node_on_host", self._node)

    def _ready(self) -> None:
        self.ready_after.append(len(self.node.calls.effects))

    def _node(self, plan: RunPlan) -> Node:
        assert plan == self.plan
        return self.node.ports

    @property
    def outcome(self) -> Outcome | None:
        finished = self.runs.read_journal(RUN).finished
        return None if finished is None or finished.payload is None else Outcome(str(finished.payload["outcome"]))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_without_a_run_it_lets_the_kubelet_start_and_ends(host: Host) -> None:
    known = len(host.node.calls.effects)

    assert process.main() == 0
    assert host.ready_after == [known]
    assert len(host.node.calls.effects) == known


@pytest.mark.parametrize(
    ("ours", "seconds", "taken"),
    [([False], 60.0, True), ([True, False], 60.0, True), ([True], 0.1, False)],
    ids=["strangers", "the script looks now and then", "ours"],
)
def test_a_journal_that_only_strangers_have_locked_keeps_no_executor_from_its_run(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, ours: list[bool], seconds: float, taken: bool
) -> None:
    looks = itertools.cycle(ours)
    host.runs.write_plan(host.plan)
    (host.root / RUN / "journal").touch()
    monkeypatch.setattr(journal_lock, "may_be_ours", lambda: next(looks))
    monkeypatch.setattr(process, "OURS_SECONDS", seconds)
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.01)

    with (host.root / RUN / "journal").open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert process.main() == 0

    assert (host.outcome is not None) is taken


def test_asked_to_try_itself_out_it_says_so_and_does_nothing(host: Host) -> None:
    known = len(host.node.calls.effects)
    host.runs.write_plan(host.plan)

    assert process.main((units.TRY_OUT,)) == exit_codes.EXIT_ABLE
    assert exit_codes.EXIT_ABLE not in {0, 1, 2, exit_codes.EXIT_NEEDS_A_HUMAN}, "nothing else ends like that"
    assert host.outcome is None
    assert len(host.node.calls.effects) == known


def test_a_plan_that_is_taken_back_just_now_is_not_carried_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read before, and the journal is locked after."""
    host.runs.write_plan(host.plan)
    known = len(host.node.calls.effects)
    require = RunStore.require_plan

    def taken_back_after(store: RunStore, run: RunId) -> RunPlan:
        plan = require(store, run)
        store.discard(run)
        return plan

    monkeypatch.setattr(RunStore, "require_plan", taken_back_after)

    assert process.main() == 0
    assert host.outcome is None
    assert len(host.node.calls.effects) == known


def test_it_carries_the_run_out_once(host: Host) -> None:
    known = len(host.node.calls.effects)
    host.runs.write_plan(host.plan)
    host.runs.report_kubelet(host.plan.run_id, ShownKubelet(at=0.0, answered=True, version=NEW))

    assert process.main() == 0
    assert host.outcome is Outcome.UPGRADED
    assert host.node.disk[PROGRAM] == program(NEW)
    assert host.ready_after[0] == known, "whoever waits for it to be started must not wait for the run"
    done = len(host.node.calls.effects)
    assert process.main() == 0
    assert len(host.node.calls.effects) == done


@pytest.mark.parametrize("asked", [ABORT, GO_ON, END])
def test_it_hears_what_a_person_asks_for_by_a_file(host: Host, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    host.runs.write_plan(host.plan)
    (host.root / RUN / asked).touch()
    heard = dict[str, bool]()

    def carry_out(run: NodeRun) -> NoReturn:
        heard.update({ABORT: run.node.abort(), GO_ON: run.node.go_on(), END: run.node.end()})
        raise Inconsistent("enough")

    monkeypatch.setattr(NodeRun, "carry_out", carry_out)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN
    assert heard == {name: name == asked for name in (ABORT, GO_ON, END)}


@pytest.mark.parametrize("killed", [False, True], ids=["lives", "killed once the plan is back"])
def test_whenever_somebody_removes_all_runs_plan_and_journal_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """As a cleaning tool may. What the agent reads tells how the run ended, and a killed executor goes on."""
    shown = ShownKubelet(at=0.0, answered=True, version=NEW)
    monkeypatch.setattr(RunStore, "shown_kubelet", lambda _self, _run: shown)
    whole = Host(tmp_path / "whole", monkeypatch)
    whole.runs.write_plan(whole.plan)
    process.main()
    wrong = {}
    for number in tried(range(len(whole.node.calls.effects))):
        host = Host(tmp_path / str(number), monkeypatch)
        host.runs.write_plan(host.plan)
        removed: list[int] = []

        def remove(name: str, at: int, moment: Moment, host: Host = host, removed: list[int] = removed) -> None:
            journal = host.runs.read_journal(RUN)
            if moment is not Moment.BEFORE or not journal.records or journal.finished is not None:
                return
            if at >= number and not removed:  # noqa: B023 - called in this round only
                shutil.rmtree(host.root)
                removed.append(at)
            elif killed and len(removed) == 1 and host.runs.read_plan(RUN) is not None:
                removed.append(at)
                raise Crash

        host.node.calls.interrupt = remove
        with suppress(Crash):
            process.main()
        if len(removed) > 1:
            process.main()
        if removed and (host.outcome, host.node.disk[PROGRAM]) != (Outcome.UPGRADED, program(NEW)):
            wrong[number, whole.node.calls.effects[number]] = host.outcome

    assert wrong == {}


def test_what_somebody_removes_is_back_although_nothing_is_recorded(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback may wait for hours for the runtime, with one and the same record, until the node loses power."""
    host.runs.write_plan(host.plan)
    carry_out, seen = NodeRun.carry_out, list[bool]()

    def remove_before(run: NodeRun) -> RunReport:
        run.heartbeat()
        seen.append(host.runs.read_plan(RUN) is not None)
        run.store.append(Record(seq=1, mark=Mark.DOING, boot=BOOT, at="", monotonic=0.0, step=Step.ARM_DEAD_MAN))
        shutil.rmtree(host.root)
        run.heartbeat()
        seen.append(host.runs.read_plan(RUN) is not None and bool(host.runs.read_journal(RUN).records))
        return carry_out(run)

    monkeypatch.setattr(NodeRun, "carry_out", remove_before)

    process.main()

    assert seen == [True, True]


def test_it_hears_an_abort(host: Host) -> None:
    host.runs.write_plan(host.plan)
    host.runs.request_abort(RUN)

    assert process.main() == 0
    assert host.outcome is Outcome.ROLLED_BACK


def test_after_a_reboot_the_kubelet_is_fenced_before_it_may_start(host: Host) -> None:
    host.runs.write_plan(host.plan)
    with host.runs.open_journal(RUN) as journal:
        for number, step in enumerate((Step.CONFIRM_BINARIES, Step.ARM_DEAD_MAN, Step.STOP_KUBELET), start=1):
            journal.append(
                Record(
                    seq=number, mark=Mark.DOING, step=step, boot=BootIdentity("an earlier one"),
                    at="2026-01-01T00:00:00+00:00", monotonic=1.0, payload={},
                )
            )  # fmt: skip

    assert process.main() == 0
    before_ready = host.node.calls.effects[: host.ready_after[0]]
    assert "services.mask kubelet.service" in before_ready
    assert host.outcome is Outcome.ROLLED_BACK
    assert host.node.kubelet.process is not None, "in the end a kubelet runs"


def test_a_second_executor_leaves_the_run_to_the_first(host: Host) -> None:
    host.runs.write_plan(host.plan)
    known = len(host.node.calls.effects)

    with host.runs.open_journal(RUN):
        assert process.main() == 0

    assert len(host.node.calls.effects) == known
    assert host.ready_after
    assert host.runs.trouble(RUN) is None


def test_a_plan_that_cannot_be_trusted_needs_a_human(host: Host) -> None:
    host.runs.write_plan(host.plan)
    (host.root / RUN / "plan.json").write_text("{}")
    known = len(host.node.calls.effects)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN
    assert "schema" in (host.runs.trouble(RUN) or "")
    assert len(host.node.calls.effects) == known
    assert host.ready_after


def test_trouble_that_cannot_be_written_down_needs_a_human_all_the_same(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other end is followed by a start, each second."""
    host.runs.write_plan(host.plan)
    (host.root / RUN / "plan.json").write_text("{}")

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RunStore, "_write", full)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN


def test_a_journal_that_cannot_be_trusted_needs_a_human(host: Host) -> None:
    host.runs.write_plan(host.plan)
    (host.root / RUN / "journal").write_bytes(b"not a record\nnor this\n")
    known = len(host.node.calls.effects)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN
    assert len(host.node.calls.effects) == known
    assert host.ready_after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plan.json", "journal"])
def test_what_lies_in_place_of_plan_or_journal_needs_a_human(host: Host, name: str, kind: str) -> None:
    host.runs.write_plan(host.plan)
    put_in_place(host.root / RUN / name, kind)
    known = len(host.node.calls.effects)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN
    assert len(host.node.calls.effects) == known
    assert host.ready_after
    if name != "journal":
        assert f"{RUN}/plan.json" in (host.runs.trouble(RUN) or "")


def test_a_journal_of_a_newer_version_is_left_as_it_is(host: Host) -> None:
    host.runs.write_plan(host.plan)
    record = Record(seq=1, mark=Mark.DOING, step=Step.CONFIRM_BINARIES, boot=BOOT, at="", monotonic=1.0, payload={})
    written = render(replace(record, schema=JOURNAL_SCHEMA + 1))
    (host.root / RUN / "journal").write_bytes(written)
    known = len(host.node.calls.effects)

    assert process.main() == exit_codes.EXIT_NEEDS_A_HUMAN
    assert (host.root / RUN / "journal").read_bytes() == written
    assert len(host.node.calls.effects) == known


def test_a_plan_for_another_boot_or_node_leaves_the_kubelet_alone(host: Host) -> None:
    host.plan = replace(host.plan, boot=BOOT)
    assert refused_for(host) is Reason.NODE_REBOOTED


def test_a_program_changed_after_staging_leaves_the_kubelet_alone(host: Host) -> None:
    host.node.disk[STAGED] = program("v1.33.12")
    assert refused_for(host) is Reason.DIGEST_MISMATCH


def test_a_program_that_became_a_link_leaves_the_kubelet_alone(host: Host, tmp_path: Path) -> None:
    """On real files: a link to the very same program is not what was planned for either."""
    root = tmp_path / "node"
    for path, version in ((PROGRAM, OLD), (STAGED, NEW)):
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(program(version))
    (root / PROGRAM[1:]).rename(root / "elsewhere")
    (root / PROGRAM[1:]).symlink_to("/elsewhere")
    host.node.ports = replace(host.node.ports, files=HostFiles(root))

    assert refused_for(host) is Reason.STEP_FAILED
    assert (root / "elsewhere").read_bytes() == program(OLD)


def refused_for(host: Host) -> Reason:
    """Carry the run out and say why it was turned back, with the kubelet that ran before still running."""
    before = host.node.kubelet.process
    known = len(host.node.calls.effects)
    host.runs.write_plan(host.plan)

    assert process.main() == 0
    assert host.outcome is Outcome.ROLLED_BACK
    assert host.node.kubelet.process is before
    assert "services.mask kubelet.service" not in host.node.calls.effects[known:]
    finished = host.runs.read_journal(RUN).finished
    assert finished is not None
    return Reason(str(finished.reason))
