"""Pods that come to the node after its run was planned, and are begun by a new kubelet that does not stay."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.cluster.owner_changes import seen_in
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import DEVICE_STATE, SOCKETS
from nodeupgrade.kubelethash import HashValue, KubeletVersion
from nodeupgrade.node.failpoints.failpoints import LOOKED
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.hash_rewriting import LARGEST_SPEC, for_newcomers, newcomers
from nodeupgrade.node.plan.plan import AwaitedContainer, Newcomers
from nodeupgrade.node.runtimes.inventory import ContainerState
from nodeupgrade.node.runtimes.runtime import BeforeImage
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from nodeupgrade.node.task_status.run_status import run_status
from tests.builders.admitted import checkpoint
from tests.doubles.node import Behaviour, SimulatedNode, plan_for, pod_json
from tests.doubles.node.containers.pods import computed_hash
from tests.scenario.node_run.test_node_run import LIMITS, START, Story, story
from tests.scenario.node_run.test_owner_changes import OLD_STOPS, of_agent, undone

LATE = parse_pod(pod_json("late", "app", sidecars=("proxy",)))
COMES_AFTER = 0.3


@dataclass
class Word:
    """The agent's, which is there some seconds after the executor has asked for it; what it says can be falsified."""

    it: Story
    after: float = 0.0
    before_hash: HashValue | None = None
    after_hash: HashValue | None = None
    asked_at: float | None = None

    def __call__(self) -> Newcomers | None:
        now = self.it.node.timeline.monotonic
        self.asked_at = now if self.asked_at is None else self.asked_at
        if now < self.asked_at + self.after:
            return None
        told = newcomers(self.it.plan, self.it.node.kubelet.pods)
        return replace(told, containers=tuple(map(self._told, told.containers)))

    def _told(self, container: AwaitedContainer) -> AwaitedContainer:
        before, after = self.before_hash or container.before, self.after_hash or container.after
        return replace(container, before=before, after=after)


SICK = "journal.append start-kubelet undoing"


def joined(behaviour: Behaviour = Behaviour.SICKENS, it: Story | None = None) -> tuple[Story, Word]:
    """A story in which a pod comes right after the new kubelet, and the agent's word about it."""
    it = it or story()
    it.node.kubelet.behaviour["v1.33.13"] = behaviour
    it.node.calls.before(START, lambda: it.node.timeline.after(COMES_AFTER, lambda: it.node.kubelet.pods.append(LATE)))
    word = Word(it)
    it.node.ports = replace(it.node.ports, newcomers=word)
    return it, word


def begun(it: Story) -> dict[str, int]:
    """How many containers of the pod have been begun so far, by name."""
    names = [c.name for c in it.node.inventory().containers if c.pod == LATE.ref]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize("after", [0.0, EXCUSE_SECONDS / 2], ids=["at once", "a moment later"])
def test_what_the_new_kubelet_began_of_a_pod_that_came_is_begun_once(after: float) -> None:
    it, word = joined()
    word.after = after

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert begun(it) == {"app": 1, "proxy": 1}
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])
    assert undone(it) is None


def test_a_runtime_that_has_nothing_else_to_read_is_restarted_for_them() -> None:
    node = SimulatedNode(version="v1.30.14", pods=[])
    it, _ = joined(it=Story(node, plan_for(node, "v1.33.13", limits=LIMITS)))
    assert it.plan.rewrites() == ()

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert begun(it) == {"app": 1, "proxy": 1}
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])


def test_without_an_agent_it_goes_back_all_the_same_and_says_what_that_costs() -> None:
    """The control: as soon as nobody tells, the old kubelet begins the container once more."""
    it, word = joined()
    word.after = 60

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert begun(it) == {"app": 2, "proxy": 1}, "kubelet 1.30 does not compare sidecars"
    assert it.node.kubelet.replaced == ["default/late/app"]
    assert "default/late/app" in str(undone(it))
    journal = parse(it.node.journal.data)[0]
    asked, over = (journal.first(Step.REWRITE_HASHES, mark) for mark in (Mark.UNDOING, Mark.UNDONE))
    assert asked is not None
    assert over is not None
    assert EXCUSE_SECONDS <= over.monotonic - asked.monotonic < EXCUSE_SECONDS + 1
    said = run_status("run", it.plan, journal).message
    assert "none that ran before restarted" in said
    came = "added or changed after planning have ended or restarted: default/late/app and may still restart:"
    assert f"{came} default/late/proxy. Cause:" in said


def test_a_hash_is_changed_only_if_it_is_the_one_that_was_told() -> None:
    it, word = joined()
    word.after_hash, word.before_hash = HashValue("abc"), HashValue("bad")

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.node.kubelet.replaced == ["default/late/app"]
    stored = {str(c.hashes.container) for c in it.node.inventory().containers if c.pod == LATE.ref}
    assert "bad" not in stored
    assert "default/late/app" in str(undone(it))


def test_what_is_no_hash_is_not_stored() -> None:
    it, word = joined()
    word.before_hash = HashValue('1", "other": "2')

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert word.before_hash not in {c.hashes.container for c in it.node.inventory().containers}


def test_a_hash_that_cannot_be_changed_does_not_stop_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    it, _ = joined()
    images = it.node.runtime.before_images

    def odd(ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        found = images(ids)
        if any(it.node.runtime.containers[each].instance.pod == LATE.ref for each in found):
            raise StepFailed("its metadata is not of the known form")
        return found

    monkeypatch.setattr(it.node.runtime, "before_images", odd)

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.node.kubelet.replaced == ["default/late/app"]
    assert "default/late/app, default/late/proxy" in str(undone(it))


def test_what_is_told_of_a_pod_that_the_plan_knows_does_not_count() -> None:
    it, _ = joined()
    known = next(c for c in it.plan.containers if c.name == "nginx")
    after = known.after.container
    assert after is not None
    lie = AwaitedContainer(pod=known.pod.uid, name="nginx", before=HashValue("wrong"), after=after)
    it.node.ports = replace(it.node.ports, newcomers=lambda: Newcomers(pods=(LATE.ref.uid,), containers=(lie,)))

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert "default/web/nginx" not in it.node.kubelet.replaced


@pytest.mark.parametrize("comes", [True, False], ids=["upgraded", "nobody came"])
def test_the_agent_is_asked_on_the_way_back_only_and_if_somebody_came(comes: bool) -> None:
    it, word = joined(Behaviour.WELL) if comes else (story(), Word(story()))
    if not comes:
        it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
        it.node.ports = replace(it.node.ports, newcomers=word)

    assert it.tell().outcome is (Outcome.UPGRADED if comes else Outcome.ROLLED_BACK)

    assert word.asked_at is None
    assert it.node.kubelet.replaced == []


def test_who_came_is_whom_the_plan_does_not_know() -> None:
    it = story()

    told = newcomers(it.plan, [*it.node.kubelet.pods, LATE])

    assert told.pods == (PodUid("uid-late"),)
    assert {(c.pod, c.name, c.before == c.after) for c in told.containers} == {
        ("uid-late", "app", False),
        ("uid-late", "proxy", False),
    }


def begins_in_part(it: Story, state: ContainerState) -> None:
    """Have a pod come, of which the old kubelet has come no further than one of its containers."""
    it.node.kubelet.pods.append(LATE)
    sandbox = it.node.runtime.create_sandbox(LATE.ref, host_network=False, source="api")
    [proxy] = (container for container in LATE.containers if container.name == "proxy")
    hashed = computed_hash(LATE, proxy, KubeletVersion.parse("v1.30.14"))
    made = it.node.runtime.containers[it.node.runtime.create_container(sandbox, "proxy", hashed).id]
    if state is ContainerState.CREATED:
        made.instance = replace(made.instance, state=state, process=None, started_at=None)


@pytest.mark.parametrize("state", [ContainerState.RUNNING, ContainerState.CREATED])
def test_what_the_new_kubelet_began_of_a_pod_that_the_old_one_had_begun_is_begun_once(state: ContainerState) -> None:
    it = of_agent()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    it.node.calls.before(OLD_STOPS, lambda: begins_in_part(it, state))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert begun(it) == {"app": 1, "proxy": 1 + (state is ContainerState.CREATED)}
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])
    assert undone(it) is None


def served(name: str, **metadata: Any) -> Json:
    pod = dict(pod_json(name, "app"))
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def test_what_is_kept_of_pods_as_served_tells_the_same_of_them() -> None:
    it = story()
    [first, *others] = (dict(pod.raw) for pod in it.node.kubelet.pods)
    image = [{**each, "image": "other:2"} for each in first["spec"]["containers"]]
    changed = {**first, "spec": {**first["spec"], "containers": image}}
    pods = [changed, *others, served("late", annotations={"a": "b" * 1000})]

    kept = [*map(for_newcomers(it.plan), pods)]

    whole, reduced = tuple(map(parse_pod, pods)), tuple(map(parse_pod, kept))
    assert newcomers(it.plan, reduced) == newcomers(it.plan, whole)
    assert {"uid-late", first["metadata"]["uid"]} == {*newcomers(it.plan, reduced).pods}
    assert seen_in(it.plan.owned, reduced) == seen_in(it.plan.owned, whole)
    assert "b" * 1000 not in str(kept)
    assert "env" not in str(kept[1]["spec"])


def test_of_a_pod_that_came_with_a_vast_spec_nothing_is_told() -> None:
    it, vast = story(), served("vast")
    vast["spec"]["containers"][0]["args"] = ["a"] * LARGEST_SPEC
    keep = for_newcomers(it.plan)

    told = newcomers(it.plan, [parse_pod(keep(pod)) for pod in (vast, served("late"))])

    assert told.pods == ("uid-late",)


def test_of_a_pod_that_came_whose_hashes_nobody_knows_nothing_is_told() -> None:
    """Its containers are named as what the old kubelet may not recognise."""
    it, odd = story(), served("odd")
    odd["spec"]["containers"][0]["args"] = ["\b"]  # Go's releases write it differently

    told = newcomers(it.plan, [parse_pod(pod) for pod in (odd, served("late"))])

    assert told.pods == ("uid-late",)


def test_a_pod_of_which_the_examination_saw_only_the_sandbox_is_not_known() -> None:
    """It was bound to the node after the pods had been listed."""
    node = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
    node.runtime.create_sandbox(LATE.ref, host_network=False, source="api")

    told = newcomers(plan_for(node, "v1.33.13"), [*node.kubelet.pods, LATE])

    assert told.pods == (LATE.ref.uid,)


DEVICES = f"/var/lib/kubelet/{DEVICE_STATE}"


def devices(*pods: str) -> bytes:
    entry = {"ContainerName": "app", "ResourceName": "gpu", "AllocResp": None}
    entries = [{**entry, "PodUID": pod, "DeviceIDs": {"0": [pod]}} for pod in pods]
    return checkpoint({"PodDeviceEntries": entries, "RegisteredDevices": {}})


def test_its_device_is_not_given_away_by_the_old_kubelet() -> None:
    it, _ = joined()
    it.node.disk[DEVICES] = devices("was")
    it.node.kubelet.reads = {"v1.30.14": {DEVICES: devices("was", LATE.ref.uid)}}
    it.node.calls.before(START, lambda: it.node.disk.update({DEVICES: devices("was", LATE.ref.uid)}))

    assert it.tell().outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.violations == []


@pytest.mark.parametrize("saved", [True, False], ids=["was there", "was not there"])
def test_what_a_pod_has_put_in_place_of_its_record_does_not_end_the_rollback(saved: bool) -> None:
    it, _ = joined()
    if saved:
        it.node.disk[DEVICES] = devices("was")
    it.node.calls.before(START, lambda: it.node.files.odd.update({DEVICES: "it is a symbolic link"}))

    assert it.tell().outcome is Outcome.ROLLED_BACK
    record = parse(it.node.journal.data)[0].first(Step.SAVE_STATE, Mark.UNDONE)
    assert record is not None
    became = "replaced by what was there before the new kubelet" if saved else "removed"
    assert record.error == f"cannot read {DEVICES} because it is a symbolic link; it was {became}"
    assert it.node.files.odd == {}


@pytest.mark.parametrize("behaviour", [Behaviour.WELL, Behaviour.SICKENS])
@pytest.mark.parametrize("saved", [True, False], ids=["was there", "was not there"])
def test_what_a_pod_puts_in_place_of_its_record_once_the_kubelet_is_stopped_meets_no_kubelet(
    saved: bool, behaviour: Behaviour
) -> None:
    """A kubelet that opens a pipe waits for ever."""
    it, _ = joined(behaviour)
    before = devices("was") if saved else None
    if before is not None:
        it.node.disk[DEVICES] = before
    it.node.kubelet.reads = {version: {DEVICES: before} for version in ("v1.30.14", "v1.33.13")}
    it.node.calls.before(
        "services.stop kubelet.service", lambda: it.node.files.odd.update({DEVICES: "it is not a regular file"})
    )

    ended = it.tell().outcome

    assert ended is (Outcome.UPGRADED if behaviour is Behaviour.WELL else Outcome.ROLLED_BACK)
    assert (it.node.files.odd, it.node.kubelet.violations) == ({}, [])


@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.parametrize("when", ["services.mask kubelet.service", "services.stop kubelet.service", SICK])
@pytest.mark.parametrize("below", ["/theirs", ""], ids=["a directory", "a file"])
def test_what_a_pod_puts_in_place_of_a_kubelets_socket_keeps_none_from_starting(
    name: str, when: str, below: str
) -> None:
    """A kubelet exits if something else lies where it is to make its socket."""
    it, _ = joined(Behaviour.SICKENS)
    theirs = f"/var/lib/kubelet/{name}{below}"
    it.node.kubelet.reads = {version: {theirs: None} for version in ("v1.30.14", "v1.33.13")}
    it.node.calls.before(when, lambda: it.node.disk.update({theirs: b"theirs"}))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.violations == []
    said = "".join(str(record.error) for record in parse(it.node.journal.data)[0].records)
    aside = f"/var/lib/kubelet/{name}".replace("/kubelet.sock", "/.kubelet.sock.nodeupgrade-aside")
    became = f"moved to {aside}" if below else "removed"
    assert f"what lay at /var/lib/kubelet/{name}, which is no socket, was {became}" in said
    assert it.node.disk.get(f"{aside}{below}") == (b"theirs" if below else None)


@pytest.mark.parametrize("name", [*SOCKETS, "device-plugins/theirs.sock"])
@pytest.mark.parametrize("behaviour", [Behaviour.WELL, Behaviour.SICKENS])
def test_no_kubelet_finds_a_link_that_a_pod_has_put_where_it_makes_its_sockets(name: str, behaviour: Behaviour) -> None:
    """A kubelet may follow it, and wait for a file server that does not answer."""
    it, found = story(), list[dict[str, str]]()
    it.node.kubelet.behaviour["v1.33.13"] = behaviour
    links = it.node.files.links
    it.node.calls.before("services.stop kubelet.service", lambda: links.update({f"/var/lib/kubelet/{name}": "/dead"}))

    def look() -> None:
        found.append({**links})
        it.node.calls.before(START, look)

    it.node.calls.before(START, look)

    ended = it.tell().outcome

    spared = behaviour is Behaviour.WELL and name not in SOCKETS
    assert ended is (Outcome.UPGRADED if spared else Outcome.ROLLED_BACK)
    assert set(map(len, found)) == {0}


def exits_without(it: Story, directory: str) -> None:
    """Kubelets exit where they cannot make a directory."""

    def look() -> None:
        there = directory in it.node.files.links.keys() | it.node.files.odd.keys() | it.node.disk.keys()
        behaviour = Behaviour.EXITS if there else Behaviour.WELL
        it.node.kubelet.behaviour |= {it.plan.from_version: behaviour, it.plan.to_version: behaviour}
        it.node.calls.before(START, look)

    it.node.calls.before(START, look)


@pytest.mark.parametrize("directory", ["/var/log/containers", "/data/pods"])
@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("kind", ["links", "odd", "disk"])
def test_what_a_pod_puts_in_place_of_a_kubelets_directory_for_logs_keeps_none_from_starting(
    directory: str, *, looked: bool, kind: str
) -> None:
    """Also where the runtime is not restarted, which opens logs there as well."""
    it = story("v1.31.9")
    it.plan = replace(it.plan, logs="/data/pods")
    files = it.node.files
    put: Mapping[str, Callable[[], None]] = {
        "links": lambda: files.links.update({directory: "/nowhere"}),
        "odd": lambda: files.odd.update({directory: "it is a FIFO"}),
        "disk": lambda: it.node.disk.update({directory: b"theirs"}),
    }
    exits_without(it, directory)
    if looked:
        it.node.calls.failpoints[LOOKED] = put[kind]
    else:
        it.node.calls.before("services.stop kubelet.service", put[kind])

    report = it.tell()

    reason = Reason.KUBELET_DID_NOT_START if looked else Reason.KUBELET_WOULD_NOT_START
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, reason)
    assert it.nothing_restarted()
    said = "".join(str(record.error) for record in parse(it.node.journal.data)[0].records)
    assert f"what lay in the way of {directory}, which is no directory, was moved to " in said


def test_a_directory_of_sockets_that_a_pod_has_crowded_stops_the_run_before_the_kubelet() -> None:
    it = story()
    it.node.calls.before(
        "services.start nodeupgrade-dead-man.timer",
        lambda: it.node.files.crowds.add(str(PurePosixPath(DEVICES).parent)),
    )

    report = it.tell()

    assert (report.outcome, report.down_seconds) == (Outcome.ROLLED_BACK, None)
    assert "has more than 10000 entries" in report.message


def test_what_lies_in_place_of_its_record_before_the_kubelet_is_stopped_stops_the_run() -> None:
    it = story()
    it.node.files.odd[DEVICES] = "it is a symbolic link"

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert f"cannot read {DEVICES} because it is a symbolic link" in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects
