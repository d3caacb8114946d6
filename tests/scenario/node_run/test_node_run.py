"""One node's run as stories: a node and a plan in, a report and a node out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import NEWEST_MINOR, HashValue
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.runtimes.inventory import ContainerState
from nodeupgrade.node.verification.verification import differences
from tests.doubles.node import Behaviour, SimulatedNode, manifest, plan_for, pod_json, supervise
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27, PROGRAM, SICKENS_SECONDS, STATE, program, state
from tests.doubles.node.planning import BACKUP, STAGED

LIMITS = Limits(settle=5.0)
START = "services.start kubelet.service"


@dataclass
class Story:
    node: SimulatedNode
    plan: RunPlan

    def tell(self) -> RunReport:
        report = supervise(self.node, self.plan)
        assert report is not None
        self.node.timeline.advance(5.0)
        return report

    @property
    def kubelet(self) -> str:
        """The version that runs and is healthy, from the program in place."""
        process = self.node.kubelet.process
        assert process is not None
        assert process.healthy
        assert self.node.disk[PROGRAM] == program(str(process.version))
        return str(process.version)

    def nothing_restarted(self) -> bool:
        return self.node.kubelet.replaced == [] and differences(self.plan.baseline, self.node.inventory()) == ()

    def container(self, name: str) -> ContainerId:
        return next(c.id for c in self.plan.containers if c.name == name)


def story(
    old: str = "v1.30.14",
    new: str = "v1.33.13",
    *,
    manifests: Mapping[str, bytes] | None = None,
    arguments: tuple[str, ...] = (),
    limits: Limits = LIMITS,
    shield: bool = True,
    more: tuple[Json, ...] = (),
) -> Story:
    """A node and the plan of its run; without the shield, damage is noticed and not prevented."""
    pods = [
        pod_json("web", "nginx", "log", sidecars=("mesh",)),
        pod_json("job", "work", restart_policy="Never"),
        *more,
    ]
    node = SimulatedNode(version=old, pods=pods, manifests=manifests, arguments=arguments)
    plan = plan_for(node, new, limits=limits)
    return Story(node, plan if shield else replace(plan, shield=None))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v1.30.14", "v1.33.13"),
        ("v1.33.13", "v1.30.14"),
        ("v1.15.12", "v1.16.15"),
        ("v1.5.8", f"v1.{NEWEST_MINOR}.0"),
    ],
)
def test_into_another_era_without_a_restart(old: str, new: str) -> None:
    it = story(old, new, manifests={"etcd.yaml": manifest("etcd", "etcd")})

    report = it.tell()

    assert (report.outcome, report.restarted, report.rewritten, report.baseline) == (Outcome.UPGRADED, 0, 5, 5)
    assert report.down_seconds is not None
    assert 0 < report.down_seconds < 1
    assert it.kubelet == new
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []
    assert it.node.disk[BACKUP] == program(old)
    assert STAGED not in it.node.disk


def test_control_the_naive_swap_restarts_everything_it_compares() -> None:
    """Without this, none of the other stories proves anything."""
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})

    it.node.kubelet.stop()
    it.node.disk[PROGRAM] = program("v1.33.13")
    it.node.services.start_kubelet()
    it.node.timeline.advance(3.0)

    assert sorted(label.rpartition("/")[2] for label in it.node.kubelet.replaced) == [
        "etcd", "log", "mesh", "nginx", "work",
    ]  # fmt: skip
    assert it.node.kubelet.violations


def test_within_an_era_nothing_is_rewritten_and_the_runtime_runs_on() -> None:
    it = story("v1.31.14", "v1.33.13")

    report = it.tell()

    assert (report.outcome, report.rewritten) == (Outcome.UPGRADED, 0)
    assert "services.restart containerd.service" not in it.node.calls.effects
    assert "runtime.rewrite" not in it.node.calls.effects


def test_within_an_era_nothing_is_read_back_and_no_end_is_blamed_on_a_restart_of_the_runtime() -> None:
    it = story("v1.31.14", "v1.33.13")
    ends = next(iter(it.node.inventory().running()))
    it.node.calls.before("journal.append read-back doing", lambda: it.node.runtime.end(ends.id, 1))

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, (ends.label,))


def test_up_and_down_again_stores_what_was_stored() -> None:
    it = story()
    before = it.node.inventory()
    it.tell()
    it.node.journal.data = b""

    back = Story(it.node, plan_for(it.node, "v1.30.14", run="run-2", limits=LIMITS))
    report = back.tell()

    assert report.outcome is Outcome.UPGRADED
    assert it.node.inventory() == before


def test_a_static_pod_keeps_its_identity_by_a_uid_in_its_manifest() -> None:
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    uid = next(s.pod.uid for s in it.plan.baseline.sandboxes if s.is_static)

    it.tell()

    assert f'uid: "{uid}"'.encode() in it.node.disk[f"{MANIFESTS}/etcd.yaml"]
    assert it.nothing_restarted()


def test_a_manifest_changed_after_planning_is_left_alone() -> None:
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    path = f"{MANIFESTS}/etcd.yaml"
    edited = it.node.disk[path] + b"# edited\n"
    it.node.calls.before("services.stop kubelet.service", lambda: it.node.disk.update({path: edited}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert it.node.disk[path] == edited


def test_a_flag_that_is_gone_is_left_out_and_comes_back_with_the_old_kubelet() -> None:
    it = story("v1.26.15", "v1.33.13", arguments=(FLAG_REMOVED_IN_1_27, "--v=2"))
    assert it.tell().outcome is Outcome.UPGRADED
    assert it.node.kubelet.process is not None
    assert it.node.kubelet.process.arguments == ("--v=2",)

    it = story("v1.26.15", "v1.33.13", arguments=(FLAG_REMOVED_IN_1_27, "--v=2"))
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY
    assert it.tell().outcome is Outcome.ROLLED_BACK
    assert it.plan.swap.arguments is not None
    assert it.plan.swap.arguments.path not in it.node.disk
    assert it.node.kubelet.process is not None
    assert it.node.kubelet.process.arguments == (FLAG_REMOVED_IN_1_27, "--v=2")


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour.EXITS, Reason.KUBELET_DID_NOT_START),
        (Behaviour.NEVER_HEALTHY, Reason.KUBELET_DID_NOT_START),
        (Behaviour.SICKENS, Reason.VERIFICATION_FAILED),
        (Behaviour.EXITS_HEALTHY, Reason.VERIFICATION_FAILED),
    ],
)
def test_a_kubelet_that_does_not_do_well_is_taken_back_without_a_restart(behaviour: Behaviour, reason: Reason) -> None:
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    it.node.kubelet.behaviour["v1.33.13"] = behaviour

    report = it.tell()

    assert (report.outcome, report.reason, report.restarted, report.listed) == (Outcome.ROLLED_BACK, reason, 0, ())
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []
    assert it.node.disk[STATE] == state("v1.30.14")


@pytest.mark.parametrize("exited", ["while it settled", "before that"])
def test_a_kubelet_that_exits_once_it_was_healthy_is_told_as_such(exited: str) -> None:
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.EXITS_HEALTHY
    if exited == "before that":
        it.node.calls.durations["journal.append start-kubelet done"] = 2 * SICKENS_SECONDS

    report = it.tell()

    assert "the kubelet became healthy and exited" in report.message
    assert "process was" not in report.message


@pytest.mark.parametrize("shield", [True, False])
def test_an_old_kubelet_that_was_healthy_once_and_does_not_stay_up_is_not_back(shield: bool) -> None:
    it = story(shield=shield)
    for version in ("v1.33.13", "v1.30.14"):
        it.node.kubelet.behaviour[version] = Behaviour.EXITS_HEALTHY

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.DEGRADED, Reason.ROLLBACK_FAILED)
    assert "became healthy, but exits" in report.message


def test_a_run_that_has_not_stopped_the_kubelet_ends_whatever_becomes_of_that() -> None:
    it = story(shield=False)
    it.node.kubelet.behaviour["v1.30.14"] = Behaviour.EXITS

    def fail() -> None:
        it.node.kubelet.process = None
        it.node.kubelet.exited()
        raise StepFailed("on request")

    it.node.calls.failpoints[at(Step.ARM_DEAD_MAN, When.ANNOUNCED)] = fail

    assert it.tell().outcome is Outcome.ROLLED_BACK


@pytest.mark.parametrize("behaviour", [Behaviour.SICKENS, Behaviour.WELL], ids=["goes back", "control"])
def test_what_the_new_kubelet_began_is_known_to_the_old_one_too(behaviour: Behaviour) -> None:
    """A container that did not run when the run was planned, in a crash loop perhaps: no hash of it was planned."""
    it = story()
    it.node.runtime.end(it.container("log"), 1)
    it = Story(it.node, plan_for(it.node, "v1.33.13", limits=LIMITS))
    assert "log" not in {c.name for c in it.plan.containers}
    it.node.kubelet.behaviour["v1.33.13"] = behaviour

    report = it.tell()

    assert report.outcome is (Outcome.ROLLED_BACK if behaviour is Behaviour.SICKENS else Outcome.UPGRADED)
    assert [c.attempt for c in it.node.inventory().running() if c.name == "log"] == [1], "begun once more, and no more"
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])


def test_one_wrong_hash_costs_exactly_that_container_and_is_reported_once() -> None:
    it = story(shield=False)
    victim = it.container("nginx")
    it.node.calls.before(START, lambda: it.node.runtime.serve(victim, HashValue("bad")))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert (report.restarted, report.listed) == (1, ("default/web/nginx",))
    assert it.node.kubelet.replaced == ["default/web/nginx"]
    assert it.kubelet == "v1.30.14"


@pytest.mark.parametrize("effect", ["services.stop kubelet.service", "services.restart containerd.service"])
def test_a_container_that_may_complete_may_do_so_at_any_time(effect: str) -> None:
    it = story()
    it.node.calls.before(effect, lambda: it.node.runtime.end(it.container("work"), 0))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    work = it.node.inventory().container(it.container("work"))
    assert work is not None
    assert (work.state, work.exit_code) == (ContainerState.EXITED, 0)


def test_a_container_that_may_complete_may_not_fail() -> None:
    it = story()
    it.node.calls.before("services.restart containerd.service", lambda: it.node.runtime.end(it.container("work"), 1))

    report = it.tell()

    assert (report.outcome, report.listed) == (Outcome.ROLLED_BACK, ("default/job/work",))


def test_a_runtime_that_loses_a_container_is_noticed_before_any_kubelet_starts() -> None:
    it = story()
    it.node.runtime.troubles.loses.add(it.container("nginx"))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert report.listed == ("default/web/nginx",)
    assert "files.replace /usr/bin/kubelet" not in it.node.calls.effects
    assert it.node.kubelet.violations == []


def test_a_runtime_that_does_not_come_back_is_given_up_in_time() -> None:
    it = story(limits=Limits(settle=5.0, runtime_restart=20.0))
    it.node.runtime.troubles.answers_after = 45.0

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_DID_NOT_ANSWER)
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []


@pytest.mark.parametrize("effect", [f"journal.append {step} doing" for step in Step if step is not COMMIT])
def test_an_abort_turns_back_from_anywhere_before_the_commit(effect: str) -> None:
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    wishes: list[bool] = []
    it.node.calls.before(effect, lambda: wishes.append(True))

    report = supervise(it.node, it.plan, abort=lambda: bool(wishes))

    assert report is not None
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.ABORTED)
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()


def test_a_spent_budget_turns_back() -> None:
    it = story()
    it.node.calls.durations["runtime.rewrite"] = 31.0

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_DOWN_BUDGET_EXCEEDED)
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()


@pytest.mark.parametrize("path", [PROGRAM, STAGED])
def test_a_program_changed_after_planning_is_not_touched(path: str) -> None:
    it = story()
    other = program("v1.30.15")
    it.node.disk[path] = other

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DIGEST_MISMATCH)
    assert "services.stop kubelet.service" not in it.node.calls.effects
    assert sha256(it.node.disk[PROGRAM]).hexdigest() == (
        sha256(other).hexdigest() if path == PROGRAM else it.plan.swap.before
    )


def test_somebody_else_rewriting_metadata_is_a_conflict_not_a_race() -> None:
    """What they wrote stays, with the old kubelet's hash."""
    it = story()
    stored = it.node.runtime.containers[it.container("nginx")]
    it.node.calls.before("journal.append rewrite-hashes doing", lambda: setattr(stored, "other", "edited"))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.STEP_FAILED)
    assert stored.other == "edited"
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []


def test_a_node_that_can_start_no_process_for_a_while_gets_its_kubelet_back() -> None:
    """Somebody's pod has used up all processes, so that systemctl cannot be run."""
    it = story("v1.26.15", "v1.33.13", arguments=(FLAG_REMOVED_IN_1_27,))
    until: list[float] = []

    def exhausted(name: str, _number: int, _moment: object) -> None:
        now = it.node.timeline.monotonic
        if name == "services.reload" and it.node.services.unit.fenced and not until:
            until.append(now + 60)
        if name.startswith("services.") and until and now < until[0]:
            raise StepFailed("cannot run systemctl because Resource temporarily unavailable")

    it.node.calls.interrupt = exhausted

    assert it.tell().outcome is Outcome.ROLLED_BACK
    assert it.kubelet == "v1.26.15"
    assert it.nothing_restarted()
