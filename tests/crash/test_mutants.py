"""The crash tests bite: each deliberate mistake in the order of things is caught by at least one of their runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run import file_exchange, newcomers, run, start_preconditions
from nodeupgrade.node.run.state_machine import Finish, Observation, RunDecision, Undo, decide
from nodeupgrade.node.run.steps import files, kubelet, runtime
from nodeupgrade.node.run.steps.actions import StepActions
from nodeupgrade.node.run.steps.before_stop import HoldPackage
from nodeupgrade.node.run.steps.order import STEPS
from tests.crash.harness import back, crashing, forward, joined, recorded, wrongs
from tests.crash.states import single_strikes
from tests.enumeration import tried

Mutation = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: object) -> None:
    pass


def exchange_steps(patch: pytest.MonkeyPatch, one: Step, other: Step) -> None:
    first, second = STEPS[one], STEPS[other]
    patch.setitem(STEPS, one, second)
    patch.setitem(STEPS, other, first)


def start_before_swap(patch: pytest.MonkeyPatch) -> None:
    exchange_steps(patch, Step.SWAP_BINARY, Step.START_KUBELET)
    patch.setattr(start_preconditions, "require_new_program", nothing)


def start_before_files(patch: pytest.MonkeyPatch) -> None:
    exchange_steps(patch, Step.SWAP_FILES, Step.START_KUBELET)
    patch.setattr(start_preconditions, "require_new_program", nothing)


def files_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_exchange, "_back_up", nothing)


def program_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kubelet.SwapBinary, "undo", nothing)
    patch.setattr(start_preconditions, "require_old_program", nothing)


def rewrite_before_stop(patch: pytest.MonkeyPatch) -> None:
    exchange_steps(patch, Step.STOP_KUBELET, Step.REWRITE_HASHES)


def undo_in_forward_order(patch: pytest.MonkeyPatch) -> None:
    def mutant(journal: Journal, seen: Observation, limits: Limits) -> RunDecision:
        decision = decide(journal, seen, limits)
        if not isinstance(decision, Undo):
            return decision
        first = next(step for step in Step if journal.mark(step) not in {None, Mark.UNDONE})
        if journal.count(first, Mark.UNDO_FAILED):
            return Finish(outcome=Outcome.DEGRADED, reason=Reason.ROLLBACK_FAILED, why="the mutant is stuck")
        return replace(decision, step=first)

    patch.setattr(run, "decide", mutant)


def forget_half_done_steps(patch: pytest.MonkeyPatch) -> None:
    def mutant(journal: Journal, seen: Observation, limits: Limits) -> RunDecision:
        decision = decide(journal, seen, limits)
        if isinstance(decision, Undo) and journal.mark(decision.step) in {Mark.DOING, Mark.FAILED}:
            known = tuple(r for r in journal.records if r.step is not decision.step)
            forgetful = decide(Journal(known), replace(seen, abort=True), limits)
            return forgetful if isinstance(forgetful, Undo) else decision
        return decision

    patch.setattr(run, "decide", mutant)


def without(step: type[StepActions], method: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, method, nothing)


def trust_half_written_hashes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime.RewriteHashes, "is_done", lambda *_: True)
    patch.setattr(runtime.ReadBack, "do", nothing)


def no_restart_when_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime, "_serves_another_era", lambda *_: False)


def forget_who_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(newcomers, "restore_hashes", lambda *_: ((), {}))


def no_restart_and_no_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime.RestartRuntime, "do", nothing)
    patch.setattr(runtime.ReadBack, "do", nothing)


def no_uids_in_manifests_and_no_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files.PinStaticPods, "do", nothing)
    patch.setattr(start_preconditions, "require_manifests", nothing)


def fence_a_committed_node(patch: pytest.MonkeyPatch) -> None:
    uncommitted = run.fence_after_reboot

    def mutant(node: object, plan: object, journal: Journal) -> None:
        known = tuple(r for r in journal.records if r.step is not COMMIT)
        uncommitted(node, plan, Journal(known))  # type: ignore[arg-type]

    patch.setattr("tests.doubles.node.supervisor.fence_after_reboot", mutant)


@pytest.mark.parametrize(
    "mutation",
    [
        start_before_swap,
        start_before_files,
        files_are_not_kept,
        program_stays,
        rewrite_before_stop,
        undo_in_forward_order,
        forget_half_done_steps,
        trust_half_written_hashes,
        no_restart_when_restored,
        forget_who_came,
        no_restart_and_no_look,
        no_uids_in_manifests_and_no_look,
        fence_a_committed_node,
        pytest.param(partial(without, HoldPackage, "do"), id="no hold"),
        pytest.param(partial(without, HoldPackage, "undo"), id="hold stays"),
        pytest.param(partial(without, files.PinStaticPods, "undo"), id="pins stay"),
        pytest.param(partial(without, files.SaveState, "undo"), id="state files stay"),
        pytest.param(partial(without, files.SwapFiles, "undo"), id="new files stay"),
        pytest.param(partial(without, runtime.RewriteHashes, "undo"), id="hashes stay"),
        pytest.param(partial(without, kubelet.StartKubelet, "undo"), id="new kubelet runs on"),
    ],
)
def test_mutant_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)

    assert any(_runs_go_wrong())


def _runs_go_wrong() -> Iterator[bool]:
    yield any(wrongs(make().run(), restarts_allowed=False) for make in (back, joined))
    for make in (forward, back):
        strikes = [*single_strikes(recorded(made := make()))]
        last = (strike for strike in strikes if made.effects[strike.number] == "journal.append run finished")
        for strike in (*tried(strikes), *last):
            yield bool(wrongs(make().run(crashing(strike)), restarts_allowed=strike.reboot))
