"""The executor dies, or the node loses power, at every effect of a run; then again at every effect of the recovery."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nodeupgrade.api.values import RunId
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.journal.run_store import volatile_files
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.rescue import script
from tests.crash.harness import ALL_WAYS, KEPT, NEW_FILES, WAYS, World, crashing, recorded, world, wrongs
from tests.crash.states import States, Strike, recording, single_strikes
from tests.doubles.node import Moment, supervise
from tests.doubles.node.containers.runtime_restart import TUNED_CONFIG, TUNING_DROP_IN
from tests.enumeration import tried

CLEAN_UP = {
    "journal.scrub",
    *("services.stop nodeupgrade-dead-man.timer", "services.stop nodeupgrade-rescue.timer"),
    *("services.remove_mask kubelet.service", "services.reload"),
    *("shield.lower", "services.stop nodeupgrade-shield.service", "shield.clear"),
    *(
        "files.remove /usr/bin/.kubelet.staged",
        *(f"files.remove {path}" for path in script.IN_MEMORY),
        f"files.remove {script.KUBELET_ENVIRONMENT}",
    ),
    *(f"files.remove {TUNING_DROP_IN}", f"files.remove {TUNED_CONFIG}"),
    *(f"files.remove {path}" for path in volatile_files(RunId("run-1"))),
    *(f"files.remove {staged_path(file.path)}" for file in NEW_FILES),
    *(f"files.remove {kept}" for kept in KEPT),
}


@WAYS
def test_uninterrupted(make: Callable[[], World]) -> None:
    """The yardstick of everything below: it ends as it should, and has an effect in every step that has one."""
    after = make().run()

    assert wrongs(after, restarts_allowed=False) == []
    assert after.report is not None
    turned_back = bool(after.node.kubelet.behaviour)
    assert after.report.outcome is (Outcome.ROLLED_BACK if turned_back else Outcome.UPGRADED)
    seen = ("packages.select", "runtime.rewrite", "services.restart")
    for effect in (*seen, "files.write /etc/kubernetes", "files.write /etc/systemd"):
        assert any(name.startswith(effect) for name in after.effects)
    assert ("runtime.restore" in after.effects) is turned_back


@ALL_WAYS
def test_one_interruption_anywhere_ends_as_old_or_new(make: Callable[[], World]) -> None:
    """Recovering once more changes nothing."""
    wrong = {}
    for strike in tried(single_strikes(recorded(make()))):
        after = make().run(crashing(strike))
        found = wrongs(after, restarts_allowed=strike.reboot) or _second_recovery(after)
        if found:
            wrong[f"{strike}, {after.effects[strike.number]}"] = found

    assert wrong == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("reboot", [False, True], ids=["first kills", "first reboots"])
def test_two_interruptions_anywhere_end_as_old_or_new(reboot: bool) -> None:
    """Exhaustive over a world of two containers. Right before an effect is right after the one before it."""
    wrong = {}
    for first, second in _pairs(reboot=reboot):
        after = world(small=True).run(crashing(first, second))
        if found := wrongs(after, restarts_allowed=first.reboot or second.reboot):
            wrong[f"{first}; {second}, {after.effects[second.number]}"] = found

    assert wrong == {}


def _pairs(*, reboot: bool) -> Iterator[tuple[Strike, Strike]]:
    """Yield a second strike for each state on the way of each recovery, once however many recoveries pass through it.

    In states that differ only in when they were reached, a run has another second of its budget left, no more. And a
    reboot right after something was written to /run is one right before.
    """
    known: set[int] = set()
    effects = world(small=True).run().effects
    for number in tried(range(len(effects)), 43):
        if reboot and number and effects[number - 1].startswith("files.write /run/"):
            continue
        first, start, states = Strike(number, Moment.BEFORE, reboot), world(small=True), States()
        start.run(recording(start.node, states, crashing(first), timed=False, moments={Moment.BEFORE}))
        recovery = {at: state for (at, _), state in states.items() if at > number}
        for at in [at for at, state in recovery.items() if state not in known]:
            yield from ((first, Strike(at, Moment.BEFORE, again)) for again in (False, True))
        known.update(recovery.values())


def _second_recovery(after: World) -> list[str]:
    once, known = _state(after), len(after.effects)
    again = supervise(after.node, after.plan)
    if again == after.report and _state(after) == once:
        return [name for name in after.effects[known:] if name not in CLEAN_UP]
    return ["a second recovery changed something"]


def _state(after: World) -> tuple[object, ...]:
    node = after.node
    return dict(node.disk), node.inventory(), node.journal.data, node.kubelet.process, replace(node.services.unit)
