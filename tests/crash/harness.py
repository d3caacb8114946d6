"""A node in the middle of its run, interruptions, and the question whether it ended as exactly OLD or exactly NEW."""

import base64
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest, RunId
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.host.packages.dpkg_database import PROGRAM as DPKG_PROGRAM
from nodeupgrade.node.host.packages.dpkg_database import STATUS as DPKG_STATUS
from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.journal.journal import Outcome, parse
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_store import JOURNAL, volatile
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.node import DEAD_MAN_TIMER, LEASE_KEEPER, SHIELD
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.hash_rewriting import newcomers
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.verification.verification import differences
from tests.crash.states import States, Strike, recording
from tests.doubles.node import (
    Behaviour,
    Crash,
    Moment,
    SimulatedNode,
    agent_for,
    examination_of,
    manifest,
    pod_json,
    supervise,
)
from tests.doubles.node.calls import Interrupt, never
from tests.doubles.node.containers.pods import computed_hash
from tests.doubles.node.containers.runtime_restart import (
    KIND,
    REMEMBERING,
    RUNTIME_UNIT,
    STOPPING,
    TUNED_CONFIG,
    TUNING_DROP_IN,
)
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27, PROGRAM, STATE, program, state
from tests.doubles.node.planning import STAGED
from tests.doubles.node.services import FENCE_DROP_IN, RUNTIME_COMMAND

OLD, NEW = "v1.17.17", "v1.33.13"
LIMITS = Limits(settle=2.0)
REPAIRED_SECONDS = 5.0
PATIENCE_SECONDS = 5000.0
"""Since boot."""
COMES_SECONDS = 0.3

CONFIG, LIMITS_DROP_IN = "/var/lib/kubelet/config.yaml", "/etc/systemd/system/kubelet.service.d/20-limits.conf"
THEIRS = "/etc/systemd/system/kubelet.service.d/10-theirs.conf"
OLD_CONFIG = b"kind: KubeletConfiguration\nmaxPods: 110\n"
NEW_FILES = tuple(
    NewFile(path=path, mode=0o644, digest=Digest(sha256(content).hexdigest()), source="a test", content=content)
    for path, content in (
        (CONFIG, b"kind: KubeletConfiguration\nmaxPods: 120\n"),
        (LIMITS_DROP_IN, b"[Service]\nLimitNOFILE=1048576\n"),
    )
)
"""One file that is there, and one that is not."""
READS: dict[str, dict[str, bytes | None]] = {
    OLD: {CONFIG: OLD_CONFIG, LIMITS_DROP_IN: None},
    NEW: {file.path: file.content for file in NEW_FILES},
}

PACKAGE = Package(manager="dpkg", name="kubelet", version="1.17.17-00", architecture="amd64")
PACKAGES = b"""\
Package: bash
Status: install ok installed
Architecture: amd64
Version: 5

Package: kubelet
Status: install ok installed
Architecture: amd64
Version: 1.17.17-00
"""
PACKAGES_HELD = PACKAGES.replace(b"kubelet\nStatus: install", b"kubelet\nStatus: hold")
DPKG = {str(DPKG_PROGRAM): b"dpkg", str(DPKG_STATUS): PACKAGES}

STATE_DIRECTORY = "/var/lib/nodeupgrade/"
COPY = str(volatile(JOURNAL, RunId("run-1")))

TUNED = "the runtime would be started with our configuration"

SECRETS = "before-images are still in the journal"
KEPT = tuple(
    map(
        backup_path,
        (
            *(CONFIG, STATE, "/etc/kubernetes/manifests/etcd.yaml"),
            "/etc/systemd/system/kubelet.service.d/90-nodeupgrade.conf",
        ),
    )
)
"""Copies of files that the run writes over."""
HARMLESS_LEFTOVERS = {
    "journal.scrub": {SECRETS},
    "services.stop nodeupgrade-dead-man.timer": {f"still running: {DEAD_MAN_TIMER}"},
    "services.stop nodeupgrade-rescue.timer": {f"still running: {script.TIMER}"},
    f"services.stop {LEASE_KEEPER}": {f"still running: {LEASE_KEEPER}"},
    f"services.stop {SHIELD}": {f"still running: {SHIELD}"},
    "shield.lower": {f"still running: {SHIELD}"},
    **{f"files.remove {path}": {f"{path} differs"} for path in script.IN_MEMORY},
    f"files.remove {COPY}": {f"{COPY} differs"},
    "files.remove /usr/bin/.kubelet.staged": {"/usr/bin/.kubelet.staged differs"},
    "services.reload": {f"{TUNED_CONFIG} differs", TUNED},
    "services.remove_mask kubelet.service": {f"{FENCE_DROP_IN} differs"},
    "services.scope_names": {*(f"{TUNING_DROP_IN} differs", f"{TUNED_CONFIG} differs", TUNED)},
    "services.devices": {*(f"{TUNING_DROP_IN} differs", f"{TUNED_CONFIG} differs", TUNED)},
    f"files.remove {TUNING_DROP_IN}": {*(f"{TUNING_DROP_IN} differs", f"{TUNED_CONFIG} differs", TUNED)},
    f"files.remove {TUNED_CONFIG}": {f"{TUNED_CONFIG} differs"},
    **{f"files.remove {path}": {f"{path} differs"} for file in NEW_FILES for path in (staged_path(file.path),)},
    **{f"files.remove {kept}": {f"{kept} differs"} for kept in KEPT},
}
"""What the clean-up after the end leaves when it fails; the agent cleans up again."""
LEFTOVERS = {wrong for found in HARMLESS_LEFTOVERS.values() for wrong in found}


@dataclass
class World:
    """A node that is about to be upgraded, and what was on its disk before."""

    node: SimulatedNode
    plan: RunPlan
    disk: dict[str, bytes]
    report: RunReport | None = None

    def run(self, interrupt: Interrupt = never) -> "World":
        """Run to the end; after an hour, a person has whatever is still held go on, or end."""
        self.node.calls.interrupt = interrupt
        clock = self.node.timeline

        def late() -> bool:
            return clock.monotonic > PATIENCE_SECONDS

        self.node.ports = replace(self.node.ports, go_on=late, end=late)
        self.report = supervise(self.node, self.plan)
        return self

    @property
    def effects(self) -> list[str]:
        return self.node.calls.effects


def world(
    *,
    small: bool = False,
    turns_back: bool = False,
    loses: bool = False,
    errs: bool = False,
    joined_by: Json | None = None,
    changes: bool = False,
    kind: RuntimeKind = KIND,
) -> World:
    """Every step has something to do here: a static pod, a rejected flag, a state file, hashes of two eras.

    Args:
        small: two containers instead of four.
        turns_back: the new kubelet becomes unhealthy while it is watched, which is the longest way back.
        loses: the runtime comes back empty from its restart, until somebody repairs its configuration a while later.
        errs: after its restart the runtime takes running containers for ended; for a kind that remembers ends.
        joined_by: a pod that comes while the new kubelet is watched, and that the agent tells of.
        changes: between planning and the kubelet's stop one container completes, and a pod comes.
        kind: the kind of the runtime.
    """
    node = node_of(small=small, job=changes, kind=kind)
    disk = dict(node.disk)
    plan = plan_of(small=small, job=changes, kind=kind)
    node.shield.plan = plan
    node.disk[STAGED] = program(NEW)
    node.disk.update({staged_path(file.path): file.content for file in NEW_FILES})
    if turns_back:
        node.kubelet.behaviour[NEW] = Behaviour.SICKENS
    if loses:
        lose(node)
    if errs:
        err(node)
    if joined_by is not None:
        join(node, plan, parse_pod(joined_by))
    if changes:
        change(node, plan)
    return World(node, plan, disk)


def lose(node: SimulatedNode) -> None:
    """Have the runtime restarted with another root, and put right some seconds after a run has begun to wait for it."""

    def repair() -> None:
        node.runtime.troubles.elsewhere = False
        node.runtime.restart()

    node.calls.before(f"services.restart {RUNTIME_UNIT}", lambda: setattr(node.runtime.troubles, "elsewhere", True))
    for step in (Step.REWRITE_HASHES, Step.STOP_KUBELET):
        node.calls.before(f"journal.append {step} held", lambda: node.timeline.after(REPAIRED_SECONDS, repair))


def err(node: SimulatedNode) -> None:
    """Have the runtime take every container for ended when the run restarts it first."""
    wrong = node.runtime.troubles.errs_about
    node.calls.before(f"services.restart {RUNTIME_UNIT}", lambda: wrong.update(node.runtime.containers))


def join(node: SimulatedNode, plan: RunPlan, pod: Pod) -> None:
    """Have a pod come, and an agent that knows of it."""
    node.ports = replace(node.ports, newcomers=lambda: newcomers(plan, node.kubelet.pods))
    came = partial(node.kubelet.pods.append, pod)
    node.calls.before("services.start kubelet.service", lambda: node.timeline.after(COMES_SECONDS, came))


def change(node: SimulatedNode, plan: RunPlan) -> None:
    """Have a job complete and a pod come until the kubelet stops, and an agent that plans what came."""
    work = next(c.id for c in plan.containers if c.name == "work")
    node.ports = replace(
        node.ports,
        planned_arrivals=agent_for(node, examined(small=True, job=True)),
        newcomers=lambda: newcomers(plan, node.kubelet.pods),
    )
    node.calls.before(f"services.start {DEAD_MAN_TIMER}", partial(node.runtime.end, work, 0))
    node.calls.before("services.mask kubelet.service", partial(node.kubelet.pods.append, parse_pod(LATE)))
    node.calls.durations["services.mask kubelet.service"] = COMES_SECONDS


LATE = pod_json("late", "app")
forward = partial(world)
back = partial(world, turns_back=True)
losing = partial(world, loses=True)
erring = partial(world, small=True, errs=True, kind=REMEMBERING)
stopping = partial(world, small=True, kind=STOPPING)
stopping_back = partial(world, small=True, turns_back=True, kind=STOPPING)
joined = partial(world, small=True, turns_back=True, joined_by=pod_json("late", "app"))
changing_back = partial(world, small=True, changes=True, turns_back=True)
WAYS = pytest.mark.parametrize("make", [pytest.param(forward, id="forward"), pytest.param(back, id="back")])
ALL_WAYS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name)
        for name, make in (
            ("forward", forward),
            ("back", back),
            ("losing", losing),
            ("erring", erring),
            ("joined", joined),
            ("changing-back", changing_back),
            ("stopping", stopping),
            ("stopping-back", stopping_back),
        )
    ],
)


def node_of(
    *, small: bool, job: bool = False, disk: MutableMapping[str, bytes] | None = None, kind: RuntimeKind = KIND
) -> SimulatedNode:
    pods = [pod_json("web", "nginx")] if small else [pod_json("web", "nginx", "log")]
    if job or not small:
        pods.append(pod_json("job", "work", restart_policy="Never"))
    disk = {} if disk is None else disk
    disk[CONFIG] = OLD_CONFIG
    disk.update(DPKG)
    disk[THEIRS] = b"[Service]\nCPUAccounting=yes\n"
    node = SimulatedNode(
        version=OLD,
        pods=pods,
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=(FLAG_REMOVED_IN_1_27, "--v=2", f"--config={CONFIG}"),
        disk=disk,
        kind=kind,
    )
    node.kubelet.reads = READS
    return node


@cache
def examined(*, small: bool, job: bool = False, kind: RuntimeKind = KIND) -> Examination:
    """The same for every node made by node_of, since nothing in it is left to chance."""
    node = node_of(small=small, job=job, kind=kind)
    found = examination_of(node, NEW, limits=LIMITS, files=NEW_FILES, package=PACKAGE)
    assert found.plan is not None
    return replace(found, plan=replace(found.plan, boot=node.ports.clock.boot()))


def plan_of(*, small: bool, job: bool = False, kind: RuntimeKind = KIND) -> RunPlan:
    plan = examined(small=small, job=job, kind=kind).plan
    assert plan is not None
    return plan


def crashing(*strikes: Strike) -> Interrupt:
    table = {(s.number, s.moment): s for s in strikes}

    def interrupt(_name: str, number: int, moment: Moment) -> None:
        strike = table.get((number, moment))
        if strike is not None:
            raise Crash(reboot=strike.reboot)

    return interrupt


def failing_once(number: int, moment: Moment) -> Interrupt:
    def interrupt(name: str, at: int, when: Moment) -> None:
        if (at, when) == (number, moment):
            raise StepFailed(f"{name} failed on purpose")

    return interrupt


def failing_from(failing: str, since: int) -> Interrupt:
    """One kind of call fails for ever, from effect number ``since`` on."""

    def interrupt(name: str, at: int, when: Moment) -> None:
        if name == failing and at >= since and when is Moment.BEFORE:
            raise StepFailed(f"{name} fails for ever")

    return interrupt


def moments(name: str) -> tuple[Moment, ...]:
    """The moments at which this effect can be struck."""
    torn = (Moment.DURING,) if name.startswith("journal.append") else ()
    return (Moment.BEFORE, *torn, Moment.AFTER)


def failing_moments(name: str) -> tuple[Moment, ...]:
    """As moments(), but a journal that reports a failure must not hold the record."""
    return tuple(m for m in moments(name) if m is not Moment.AFTER or not name.startswith("journal.append"))


def recorded(after: World) -> States:
    """Run to the end, and return the states on the way there."""
    found: States = {}
    after.run(recording(after.node, found))
    return found


def wrongs(after: World, *, restarts_allowed: bool) -> list[str]:
    """Everything that is neither OLD nor NEW, or was not at some moment; empty if all is well."""
    node, report = after.node, after.report
    plan = plan_in_effect(after.plan, parse(node.journal.data)[0])
    if report is None:
        return ["the run did not end"]
    found = mixtures(after, upgraded=report.outcome is Outcome.UPGRADED)
    if b"log path, image, mounts" in _payloads(after):
        found.append(SECRETS)
    if report.outcome is Outcome.DEGRADED:
        found.append(f"a human is needed: {report.message}")
    found += [f"still running: {unit}" for unit in sorted(node.services.active)]
    if node.services.runtime_command != RUNTIME_COMMAND:
        found.append(TUNED)
    if (missing := node.services.missing_config) is not None:
        found.append(f"the runtime cannot be started without {missing}")
    if not restarts_allowed:
        free = [c.id for c in plan.containers if c.may_complete]
        found += node.kubelet.replaced
        found += [str(d) for d in differences(plan.baseline, node.inventory(), may_complete=free)]
        found += [] if report.restarted == 0 else [f"the report lists {report.listed}"]
    return found


def _payloads(after: World) -> bytes:
    """All bytes that steps have kept of the runtime's metadata."""
    images = [i for r in parse(after.node.journal.data)[0].records for i in (r.payload or {}).values()]
    return b"".join(base64.b64decode(str(i["data"])) for i in images if isinstance(i, dict) and "data" in i)


def mixtures(after: World, *, upgraded: bool) -> list[str]:
    """Everything that is not as it is with the new kubelet, or with the old one."""
    node = after.node
    node.timeline.advance(3.0)
    found = [*node.kubelet.violations]
    found += [f"{path} differs" for path in _differing_files(after, upgraded=upgraded)]
    found += _wrong_hashes(after, upgraded=upgraded)
    process = node.kubelet.process
    if process is None or not process.healthy or str(process.version) != (NEW if upgraded else OLD):
        found.append(f"kubelet {process} runs")
    if node.services.unit.fenced:
        found.append("the fence still stands")
    return found


def _differing_files(after: World, *, upgraded: bool) -> list[str]:
    plan, swap = after.plan, after.plan.swap
    wanted = dict(after.disk)
    if upgraded:
        wanted |= {pin.path: pin.content for pin in plan.pins}
        wanted |= {PROGRAM: program(NEW), STATE: state(NEW)}
        assert swap.arguments is not None
        wanted[swap.arguments.path] = swap.arguments.content
        wanted |= {file.path: file.content for file in NEW_FILES}
        wanted[str(DPKG_STATUS)] = PACKAGES_HELD
    now = {
        path: data
        for path, data in after.node.disk.items()
        if path != swap.backup and not path.startswith(STATE_DIRECTORY)
    }
    return sorted(path for path in wanted.keys() | now.keys() if wanted.get(path) != now.get(path))


def _wrong_hashes(after: World, *, upgraded: bool) -> list[str]:
    """Planned containers, dead or alive, have exactly what was planned; others what the present kubelet computes.

    Of a pod that came later nobody compares a dead container.
    """
    plan = plan_in_effect(after.plan, parse(after.node.journal.data)[0])
    planned = {c.id: c.after if upgraded else c.before for c in plan.containers}
    begun = {c.id for c in after.plan.containers}  # of these, what ended before the stop keeps its hash
    kubelet = KubeletVersion.parse(NEW if upgraded else OLD)
    pods = {pod.ref: pod for pod in after.node.kubelet.desired(kubelet)}
    found = []
    for container_id, stored in after.node.runtime.containers.items():
        seen = stored.instance
        if container_id in planned:
            right = stored.hashes == planned[container_id]
        else:
            pod = pods.get(seen.pod)
            spec = pod and pod.container(seen.name)
            dead = seen.process is None and (seen.pod.uid not in after.plan.pods() or container_id in begun)
            right = dead or bool(pod and spec and stored.hashes.container == computed_hash(pod, spec, kubelet))
        served = seen.process is None or seen.hashes == stored.hashes
        if not (right and served):
            found.append(f"{seen.label} ({container_id}) stores {stored.hashes}, serves {seen.hashes}")
    return found
