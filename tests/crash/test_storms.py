"""Whatever hits a node, in whatever number: it ends, and was consistent at every moment."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.errors import StepFailed
from tests.crash.harness import (
    CONFIG,
    DPKG,
    LEFTOVERS,
    LIMITS,
    NEW,
    NEW_FILES,
    OLD,
    OLD_CONFIG,
    PACKAGE,
    READS,
    THEIRS,
    World,
    wrongs,
)
from tests.doubles.node import Behaviour, Crash, Moment, SimulatedNode, manifest, plan_for, pod_json
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27

GAP = st.integers(min_value=0, max_value=25)
"""Effects between two blows; a run has about fifty."""
# Fewer blows than the attempts that an undo has: nothing may end as Degraded.
BLOWS = st.lists(st.tuples(GAP, st.sampled_from(["kill", "reboot", "fail", "tear"])), max_size=4)
PODS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), min_size=1, max_size=4)
BEHAVIOUR = st.sampled_from(
    [Behaviour.WELL, Behaviour.WELL, Behaviour.EXITS, Behaviour.SICKENS, Behaviour.EXITS_HEALTHY]
)


class Storm:
    """Strikes one blow after the other, each so many effects after the one before."""

    def __init__(self, blows: list[tuple[int, str]]) -> None:
        self._blows = list(blows)
        self._last = 0
        self.rebooted = False

    def __call__(self, name: str, number: int, moment: Moment) -> None:
        if not self._blows or moment is Moment.READING:
            return
        gap, kind = self._blows[0]
        if number >= self._last + gap and moment is _moment_of(kind, name, number):
            self._blows.pop(0)
            self._last = number + 1
            self.rebooted |= kind == "reboot"
            raise StepFailed(f"{name} failed on purpose") if kind == "fail" else Crash(reboot=kind == "reboot")


def _moment_of(kind: str, name: str, number: int) -> Moment:
    if kind == "tear":
        return Moment.DURING
    if number % 2 or (kind == "fail" and name.startswith("journal.append")):
        return Moment.BEFORE
    return Moment.AFTER


@settings(max_examples=120, deadline=None, derandomize=True)
@given(pods=PODS, static=st.integers(0, 2), behaviour=BEHAVIOUR, blows=BLOWS)
def test_every_storm_ends_as_old_or_new(
    pods: list[list[str]], static: int, behaviour: Behaviour, blows: list[tuple[int, str]]
) -> None:
    node = SimulatedNode(
        version=OLD,
        pods=[pod_json(f"pod-{number}", *containers) for number, containers in enumerate(pods)],
        manifests={f"static-{number}.yaml": manifest(f"static-{number}", "main") for number in range(static)},
        arguments=(FLAG_REMOVED_IN_1_27,),
        disk={CONFIG: OLD_CONFIG, THEIRS: b"[Service]\n", **DPKG},
    )
    node.kubelet.reads = READS
    disk = dict(node.disk)
    plan = plan_for(node, NEW, limits=LIMITS, files=NEW_FILES, package=PACKAGE)
    node.kubelet.behaviour[NEW] = behaviour
    storm = Storm(blows)

    after = World(node, plan, disk).run(storm)

    found = wrongs(after, restarts_allowed=storm.rebooted)
    assert [wrong for wrong in found if wrong not in LEFTOVERS] == []
