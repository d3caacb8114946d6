"""Last checks before a start: program and configuration are as planned.

Both may change after they were checked, so they are checked again right before a start, which costs a few milliseconds.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.node.checks.units import START_REMEDY, is_harmless, nothing_else_stops
from nodeupgrade.node.facts.daemons import find_daemons
from nodeupgrade.node.facts.kubelet_start import read_again
from nodeupgrade.node.facts.pod_cgroups import find_incomplete
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.host.systemd.environment_files import is_pattern
from nodeupgrade.node.host.systemd.start_obstacles import start_obstacles
from nodeupgrade.node.host.systemd.stops import stopped_with
from nodeupgrade.node.host.systemd.unit_start import UnitStart, differences
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.manifest_uid import edited
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import log_files
from nodeupgrade.node.runtimes.description import RuntimeAtWork, RuntimeInfo
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.runtimes.locked_files import locked_by_others, locked_hazards
from nodeupgrade.node.runtimes.locked_files import named as named_lock
from nodeupgrade.text import lines

LOOK_AGAIN_SECONDS = 1.0
"""How long a container may be endangered: one that is paused for a moment, or ends while it is looked at."""


def require_runtime_as_planned(node: Node, plan: RunPlan) -> None:
    """Require everything that a start of the runtime reads to be as planned.

    Raises:
        StepFailed: something changed since planning, so the runtime might start with another configuration.
    """
    if plan.runtime_start is not None:
        _require_runtime(node, plan, plan.runtime_start)


def require_runtime_comes_back(node: Node, plan: RunPlan) -> None:
    """Require the same on the way back, but for what was changed before the runtime was last started.

    Who upgrades or configures a runtime restarts it: then it has started that way already, and does so again.

    Raises:
        StepFailed: something has changed since the run was planned, and no runtime was started with it.
    """
    if (planned := plan.runtime_start) is None:
        return
    try:
        _require_runtime(node, plan, planned)
    except StepFailed:  # only then everything is read once more, with its times
        _require_runtime(node, plan, _as_last_started(node, planned))


def _require_runtime(node: Node, plan: RunPlan, planned: UnitStart) -> None:
    program = PurePosixPath(planned.program)
    is_confirmed = node.files.stamp(program) == _confirmed(node).get(planned.program)
    if not is_confirmed and node.files.digest(program) != planned.digest:
        raise _unsafe(planned, f"{planned.program} was changed")
    if found := _difference(node, planned, override=plan.tuning.override):
        raise _unsafe(planned, found)


def _as_last_started(node: Node, planned: UnitStart) -> UnitStart:
    """Return a start with what was changed before the unit's process was started, or before a clean stop of it.

    Not with files of the unit: systemd may have read these later. Nor where it is unknown what was changed when.
    """
    unit = node.services.status(planned.unit)
    started = _last_started(node, unit)
    if started is None:
        return planned
    now = read_again(node.files, unit, planned).files
    paths = (path for path in planned.files.keys() | now.keys() if not path.endswith("/"))
    changed = {path: _changed(node, path) for path in paths if not _is_of_unit(PurePosixPath(path), unit)}
    read = {path: now.get(path, "") for path, at in changed.items() if at is not None and at < started}
    at, digest = _changed(node, planned.program), planned.digest
    if at is not None and at < started:
        digest = node.files.digest(PurePosixPath(planned.program))
    return replace(planned, files={**planned.files, **read}, digest=digest)


def _last_started(node: Node, unit: UnitStatus) -> float | None:
    """Return when a unit was started last, in seconds since 1970; ``None`` if it is not known, or the start failed.

    systemd tells it in whole seconds, and exactly by another clock, which helps unless this one was set since. Then it
    is the earlier of what the kernel and systemd say.
    """
    if unit.started is None or unit.started_at is None or not (unit.main_pid or unit.result == "success"):
        return None
    exact = node.clock.now().timestamp() - (node.clock.awake() - unit.started)
    if 0 <= exact - unit.started_at < 1:
        return exact
    with suppress(Transient):
        return min(unit.started_at, node.kubelet.started(unit.main_pid)) if unit.main_pid else unit.started_at
    return None


def _changed(node: Node, path: str) -> float | None:
    """Return when a file was changed; of one that is gone, and of a pattern, when its directory was."""
    at = PurePosixPath(path)
    changed = None if is_pattern(path) else node.files.changed(at)
    return node.files.changed(at.parent) if changed is None else changed


def _is_of_unit(path: PurePosixPath, unit: UnitStatus) -> bool:
    return str(path) == unit.fragment_path or path.parent.name.endswith("service.d")


def require_cgroups_as_planned(node: Node, plan: RunPlan) -> None:
    """Require the pods' cgroups to be what they were, now that systemd has read its files for the last time.

    Before systemd answers, a ``daemon-reload`` may remove controllers that it does not manage (kubernetes#128397).

    Raises:
        StepFailed: a running pod has lost a controller.
    """
    if not (lost := find_incomplete(node.files, plan.cgroups)):
        return
    sandboxes = node.runtime.inventory().sandboxes
    running = {sandbox.pod.uid: sandbox.pod for sandbox in sandboxes if sandbox.ready}
    if pods := [f"{running[uid]} ({', '.join(missing)})" for uid, missing in lost.items() if uid in running]:
        raise StepFailed(
            f"the cgroups of {len(pods)} pods have lost controllers since the run was planned, first: {pods[0]}; a "
            "starting kubelet would kill them (`systemctl daemon-reload` may be the cause, kubernetes#128397)",
            reason=Reason.POD_CGROUP_WOULD_CHANGE,
        )


def require_devices_as_planned(node: Node, plan: RunPlan) -> None:
    """Require containers to have the devices that they had, now that systemd has read its files for the last time.

    Raises:
        StepFailed: a container has lost one, which only its runtime could give back.
    """
    lists = ((path, rules, node.files.read(PurePosixPath(path))) for path, rules in plan.cgroups.devices.items())
    left = (
        (path, {*rules} - {*lines(text.decode(errors="replace"))}) for path, rules, text in lists if text is not None
    )
    if lost := [(path, rules) for path, rules in left if rules]:
        path, rules = lost[0]
        raise StepFailed(
            f"{len(lost)} containers have lost devices since the run was planned, first: {', '.join(sorted(rules))} in "
            f"{path}; `systemctl daemon-reload` may be the cause; they run on without: recreate their pods",
            reason=Reason.DEVICES_WOULD_BE_LOST,
        )


def require_stops_as_planned(node: Node, plan: RunPlan) -> None:
    """Require stops of kubelet and runtime to end nothing else, now that systemd has read its files for the last time.

    Which units stop together with a unit is written in their files, and what a drop-in no longer sets, in none.

    Raises:
        StepFailed: a stop would end something that it spared when the run was planned.
    """
    for planned in filter(None, (plan.kubelet_start, plan.runtime_start)):
        unit, found = node.services.status(planned.unit), ""
        if planned.spares_others and not unit.spares_others:
            found = f"{unit.name} has KillMode={unit.kill_mode}, which ends whatever else is in its cgroup"
        down = () if unit.name == plan.swap.unit else (plan.swap.unit,)
        stopped = stopped_with(node.services, unit, *down)
        if running := [name for name in stopped if name.endswith(".service") and name not in planned.bound_by]:
            found = f"{', '.join(running)} would stop together with {unit.name}"
        if found:
            why = f"{found}: that has changed since the run was planned"
            raise StepFailed(why, reason=Reason.KUBELET_STOP_AFFECTS_OTHERS)


def require_no_daemon(node: Node, plan: RunPlan) -> None:
    """Require the stop of the kubelet to end no daemon that came since the run was planned, unless that is accepted.

    Raises:
        StepFailed: there is one, such as one that serves a mount of a pod that came.
    """
    unit = node.services.status(plan.swap.unit)
    if unit.spares_others or any(each.check == nothing_else_stops.name for each in plan.cautions):
        return
    if daemons := tuple(find_daemons(node.files, unit)):
        raise StepFailed(
            f"{named(daemons)} came into the cgroup of {unit.name} since the run was planned and would end with it, "
            "and with it what it serves, such as a FUSE mount of a pod",
            reason=Reason.INVENTORY_CHANGED,
        )


def require_starts_as_planned(node: Node, plan: RunPlan) -> None:
    """Require kubelet and runtime to be started as planned, now that systemd has read its files for the last time.

    Once the kubelet is stopped, it would be too late: not even the old one may be started by a unit that was changed,
    or can be by one that requires what is gone. A runtime whose hashes stay is not restarted, so its next start does
    not matter.

    Raises:
        StepFailed: something changed since planning that a start reads, or something is missing that it requires.
    """
    _require_no_obstacle(node, plan.swap.unit, plan.kubelet_start)
    if plan.rewrites():
        _require_no_obstacle(node, plan.runtime_unit, plan.runtime_start)
        require_runtime_as_planned(node, plan)
    if (planned := plan.kubelet_start) is not None and (found := _difference(node, _before_exchange(planned, plan))):
        raise _unknown(planned, found)


def require_harmless_restart(node: Node, plan: RunPlan) -> None:
    """Require nothing that would make the restart of the runtime harmful, as the examination did minutes before.

    It has to be found twice: containers come and go while they are looked at.

    Raises:
        StepFailed: a container is paused by now, for example, or what the runtime needs to find it again is gone.
    """
    if not plan.rewrites() or not (found := _hazards(node, plan)):
        return
    node.clock.sleep(LOOK_AGAIN_SECONDS)
    if again := [finding for key, finding in _hazards(node, plan).items() if key in found]:
        raise StepFailed(
            f"{again[0]}; that was not so when the run was planned, and {plan.runtime_unit} must not be restarted now",
            reason=Reason.INVENTORY_CHANGED,
        )


def _hazards(node: Node, plan: RunPlan) -> Mapping[tuple[Reason, str], Finding]:
    """Return the hazards of a restart by what they are about; their details may differ from look to look.

    Of the runtime itself, name and version are enough, which cannot have changed: it needs no more to answer.
    """
    began = node.clock.awake()
    inventory = node.runtime.inventory(full=True)
    listing_seconds = node.clock.awake() - began
    seen = RuntimeAtWork(
        info=RuntimeInfo(name=plan.runtime_name, version=plan.runtime_version, cri_versions=()),
        unit=node.services.status(plan.runtime_unit),
        inventory=inventory.without(plan.expendable()),
        listing_seconds=listing_seconds,
    )
    found = node.runtime.restart_hazards(seen)
    locked = locked_hazards(node.files, _locks(node, plan), seen.unit.main_pid)
    return {(each.reason, each.subject): each for each in (*found.unit, *found.pods, *found.runtime, *locked)}


def require_unlocked(node: Node, plan: RunPlan) -> None:
    """Require that no other process has locked what the runtime locks when it starts.

    Raises:
        StepFailed: one has, or waits for it.
    """
    for path, pid in locked_by_others(node.files, _locks(node, plan), node.services.status(plan.runtime_unit).main_pid):
        why = f"{named_lock(path, pid)}, and {plan.runtime_unit} would not answer once it is restarted"
        raise StepFailed(why, reason=Reason.INVENTORY_CHANGED)


def who_keeps_it_waiting(node: Node, plan: RunPlan) -> str | None:
    """Name the process that has locked what a starting runtime locks; ``None`` if none has, or that is not known."""
    own = node.services.status(plan.runtime_unit).main_pid
    with suppress(StepFailed):
        return next((named_lock(*each) for each in locked_by_others(node.files, _locks(node, plan), own)), None)
    return None


def _locks(node: Node, plan: RunPlan) -> tuple[PurePosixPath, ...]:
    return () if plan.runtime_root is None else node.runtime.kind.locked_in(plan.runtime_root)


def _require_no_obstacle(node: Node, name: str, planned: UnitStart | None) -> None:
    """Require systemd to start a unit again: what it requires may have gone or failed while it ran.

    What was there when the run was planned, and was accepted then, is no reason.
    """
    found = start_obstacles(node.files, node.services, node.services.status(name))
    known = () if planned is None else planned.obstacles.probable
    for why in (*found.certain, *(each for each in found.probable if each not in known)):
        raise StepFailed(f"{why}; {START_REMEDY}", reason=Reason.UNIT_CHANGED)


def _before_exchange(planned: UnitStart, plan: RunPlan) -> UnitStart:
    """Return how the kubelet's unit would be started with the files that this run has still to exchange."""
    before = {name: file.before or "" for file in plan.exchanged for name in (file.path, *file.also)}
    absent = {path for path, content in before.items() if not content}

    def read(path: str, content: str) -> str:
        if not path.endswith("/") and not is_pattern(path):
            return before.get(path, content)
        # Names in a directory are relative to it, those of a pattern are not; a directory may be written in many ways.
        return " ".join(name for name in content.split(" ") if str(PurePosixPath(path) / name) not in absent)

    return replace(planned, files={path: read(path, content) for path, content in planned.files.items()})


def require_new_program(node: Node, plan: RunPlan) -> str | None:
    """Require the kubelet's unit to start what was planned, and its program to be the new one.

    Returns:
        The stamp of the program that will run.

    Raises:
        StepFailed: either is not as planned.
    """
    swap, planned = plan.swap, plan.kubelet_start
    if planned is not None:
        override = None if swap.arguments is None else swap.arguments.path
        if found := _difference(node, planned, override=override):
            raise _unknown(planned, found)
    return require_new_file(node, plan)


def require_manifests(node: Node, plan: RunPlan) -> None:
    """Require the manifests that this run has pinned to describe the same pods under their UIDs, or to be edited.

    To a kubelet, a static pod of another UID is another pod: it kills the processes of the former by its cgroup. Where
    the run has taken the UID out, the new kubelet computes it.

    Raises:
        StepFailed: another program has written one anew.
    """
    for pin in plan.pins:
        now = node.files.read(PurePosixPath(pin.path))
        if not pin.removes and now != pin.content and not edited(now, pin.content):
            why = f"{pin.path} was changed after the run had written it: the new kubelet would replace its pod"
            raise StepFailed(why, reason=Reason.INVENTORY_CHANGED)


def require_new_file(node: Node, plan: RunPlan) -> str | None:
    """Require the new program in its place, and return its stamp.

    Raises:
        StepFailed: another file is there.
    """
    return _require(node, plan.swap.path, plan.swap.after, _confirmed(node).get(plan.swap.staged))


def require_old_program(node: Node, plan: RunPlan) -> str | None:
    """Require the kubelet's unit to start the old program, which is restored from the backup if necessary.

    Any other change of the unit is considered intended: the node must not stay without a kubelet for it.

    Returns:
        The stamp of the program that will run.

    Raises:
        StepFailed: another program would be started, although the hashes are the old kubelet's.
    """
    swap, planned = plan.swap, plan.kubelet_start
    known = _confirmed(node).get(swap.path)
    if planned is not None:
        unit = node.services.status(swap.unit)
        _require_no_more_commands(unit, planned)
        if unit.program and unit.program != planned.program:
            return _require_same_elsewhere(node, unit, swap.before)
    try:
        return _require(node, swap.path, swap.before, known)
    except StepFailed:
        _require(node, swap.backup, swap.before, known)
        node.files.replace(PurePosixPath(swap.backup), PurePosixPath(swap.path))
    return _require(node, swap.path, swap.before, known)


def stranger(node: Node, plan: RunPlan) -> str | None:
    """Return a sentence about a program in the kubelet's place that is neither of both, before the old one replaces it.

    A package upgrade may have put it there. It is read only if its stamp is not a confirmed one; what cannot be read
    keeps no old kubelet from its place, and what is no file is moved aside.
    """
    swap, known = plan.swap, _confirmed(node)
    path, found = PurePosixPath(swap.path), None
    with suppress(StepFailed):
        if (stamp := node.files.stamp(path)) is not None and stamp in {known.get(swap.path), known.get(swap.staged)}:
            return None
        if (found := node.files.digest(path)) in {swap.before, swap.after}:
            return None
    aside = node.files.set_aside(path)
    if found is not None:
        return f"what was put at {path} during the run (SHA-256 {found}) was replaced by kubelet {plan.from_version}"
    return None if aside is None else f"what lay at {path}, which is no file, was moved to {aside}"


def start_runtime(node: Node, plan: RunPlan) -> None:
    """Start a runtime that does not run, and that systemd does not start again; or one that waits for a log.

    The adapter of one that is stopped for its hashes does that itself.

    Raises:
        StepFailed: as for require_runtime_comes_back(), or it does not start; or it was restarted for a log or lock.
    """
    restart_for_locks(node, plan)
    if node.runtime.kind.stops_for_rewriting:
        require_startable(node, plan)
    elif node.services.status(plan.runtime_unit).down:
        require_runtime_comes_back(node, plan)
        log_files.put_away(node, plan)
        node.services.start(plan.runtime_unit)
    else:
        restart_for_logs(node, plan)


def restart_for_locks(node: Node, plan: RunPlan) -> None:
    """Restart a runtime that waits for what another process has locked, with copies of these files in their places.

    Not for a lock of who may write to them, as podman may to the storage of CRI-O: both would write there at once.

    Raises:
        StepFailed: as for require_runtime_comes_back(); or it was restarted.
    """
    unit, paths = node.services.status(plan.runtime_unit), _locks(node, plan)
    try:
        found = dict(locked_by_others(node.files, paths, unit.main_pid, writers=False))
        locked, why = (*found,), "; ".join(named_lock(path, pid) for path, pid in found.items())
    except StepFailed as error:  # a pod may have as many locks as it likes, until the list cannot be read
        waits = unit.main_pid and _is_late(node, plan, unit)
        locked, why = tuple(path for path in paths if waits and node.files.entry(path)), str(error)
    if not locked:
        return
    require_runtime_comes_back(node, plan)
    log_files.put_away(node, plan)
    node.services.stop(plan.runtime_unit)  # as soon as it gets the lock, it writes to what is being copied
    for path in locked:
        node.files.copy(path, path)
    # Its socket may have started it meanwhile, as Docker's does for any client: then it waits for what lay there.
    node.services.restart(plan.runtime_unit, seconds=plan.limits.runtime_restart)
    done = f"{plan.runtime_unit} was restarted with copies in their places"
    raise StepFailed(f"{why}: {done}", reason=Reason.RUNTIME_DID_NOT_ANSWER)


def _is_late(node: Node, plan: RunPlan, unit: UnitStatus) -> bool:
    """Report whether a runtime has run for longer than it may take to answer."""
    return unit.started is not None and node.clock.awake() - unit.started >= plan.limits.runtime_restart


def restart_for_logs(node: Node, plan: RunPlan) -> None:
    """Restart a runtime that could not open the logs of containers, once what lies in their place was moved aside.

    Raises:
        StepFailed: as for require_runtime_comes_back(); or it was restarted.
    """
    if not _started_since(node, plan, plan.examined) or not log_files.anything_in_the_way(node, plan):
        return
    require_runtime_comes_back(node, plan)
    if (moved := log_files.put_away(node, plan)) is not None:
        node.services.restart(plan.runtime_unit, seconds=plan.limits.runtime_restart)
        why = f"what lay in the place of logs was moved aside, first to {moved}, and {plan.runtime_unit} restarted"
        raise StepFailed(why, reason=Reason.RUNTIME_DID_NOT_ANSWER)


def restart_for_lost(node: Node, plan: RunPlan, told: float) -> bool:
    """Restart a runtime that lost containers when it was started, and has not been since that was ``told``.

    It goes on not to know one whose log it could not open, whatever lies there by now.

    Returns:
        Whether it was restarted.

    Raises:
        StepFailed: as for restart_runtime().
    """
    if not node.runtime.kind.opens_logs or not _started_since(node, plan, plan.examined):
        return False
    if _started_since(node, plan, told):
        return False
    restart_runtime(node, plan, node.runtime.inventory().running())
    return True


def _started_since(node: Node, plan: RunPlan, moment: float | None) -> bool:
    """Report whether the runtime has started since a moment of this boot, as since the examination, to open logs."""
    started = node.services.status(plan.runtime_unit).started
    # Two clocks, of which one stands still while the node is suspended: it only makes a runtime younger.
    return started is not None and node.clock.awake() - started < node.clock.monotonic() - (moment or 0.0)


def restart_runtime(node: Node, plan: RunPlan, newer: Iterable[ContainerInstance] = ()) -> None:
    """Restart the runtime on the way back; ``newer`` are containers that are not in the plan.

    Raises:
        StepFailed: as for require_runtime_comes_back(), or it does not restart.
    """
    require_runtime_comes_back(node, plan)
    log_files.put_away(node, plan, newer)
    node.services.restart(plan.runtime_unit, seconds=plan.limits.runtime_restart)


def restart_for_cri(node: Node, plan: RunPlan) -> None:
    """Restart a runtime that runs without its CRI, once it has for as long as a restart may take.

    It is active although a plugin could not be loaded, and never tries again. One that does not answer at all may be
    busy, and is waited for.

    Raises:
        StepFailed: as for require_runtime_comes_back(), or it does not restart.
    """
    unit = node.services.status(plan.runtime_unit)
    if not unit.running or not unit.started:
        return
    if node.clock.awake() - unit.started >= plan.limits.runtime_restart:
        restart_runtime(node, plan)


def require_startable(node: Node, plan: RunPlan) -> None:
    """Require the same of a runtime that was stopped to rewrite its files, before anything starts it.

    Raises:
        StepFailed: as for require_runtime_comes_back(). The runtime stays stopped, and its containers run.
    """
    kind = node.runtime.kind
    if (kind.stops_for_rewriting or kind.remembers_ends) and not node.services.status(plan.runtime_unit).running:
        require_runtime_comes_back(node, plan)


def require_digest(node: Node, path: str, planned: Collection[Digest]) -> None:
    """Require a file to have one of the planned digests.

    Raises:
        StepFailed: it has none of them.
    """
    found = node.files.digest(PurePosixPath(path))
    if found not in planned:
        has = f"{path} has SHA-256 {found or 'none, it is gone'}, planned {' or '.join(planned)}"
        raise StepFailed(f"{has}: it was changed after planning", reason=Reason.DIGEST_MISMATCH)


def _difference(node: Node, planned: UnitStart, *, override: str | None = None) -> str | None:
    unit = node.services.status(planned.unit)
    now = read_again(node.files, unit, planned)
    found = next(differences(planned, now, override=override), None)
    if found is None and unit.needs_reload and not _is_fence_lifted(node, unit):
        return f"the files of {unit.name} were changed"
    return found


def _is_fence_lifted(node: Node, unit: UnitStatus) -> bool:
    """Report whether our fence is removed but still loaded, after an interruption right before the start."""
    drop_in = fence.drop_in(unit.name)
    return str(drop_in) in unit.drop_ins and node.files.read(drop_in) is None


def _require_same_elsewhere(node: Node, unit: UnitStatus, wanted: Digest) -> str | None:
    program = PurePosixPath(unit.program)
    if node.files.digest(program) != wanted:
        raise StepFailed(
            f"{unit.name} would now start {program}, which is not the old kubelet: it stays fenced; "
            f"remove that from the unit (systemctl cat {unit.name})",
            reason=Reason.UNIT_CHANGED,
        )
    return node.files.stamp(program)


def _require_no_more_commands(unit: UnitStatus, planned: UnitStart) -> None:
    for command in unit.commands:
        if command.when != "ExecStart" and command not in planned.commands and not is_harmless(command):
            raise StepFailed(
                f"{unit.name} now has {command}, which may do anything: the kubelet stays fenced; "
                f"remove that from the unit (systemctl cat {unit.name})",
                reason=Reason.UNIT_CHANGED,
            )


def _require(node: Node, path: str, wanted: Digest, known: JsonValue) -> str | None:
    """Return the stamp of a program; its content is read only if the stamp is not the confirmed one."""
    stamp = node.files.stamp(PurePosixPath(path))
    if stamp is None or stamp != known:
        require_digest(node, path, {wanted})
    return stamp


def _confirmed(node: Node) -> Mapping[str, JsonValue]:
    return node.recorded(Step.CONFIRM_BINARIES) or {}


def _unknown(planned: UnitStart, found: str) -> StepFailed:
    detail = f"{found} after the run was planned, so it is unknown what {planned.unit} would start"
    return StepFailed(detail, reason=Reason.UNIT_CHANGED)


def _unsafe(planned: UnitStart, found: str) -> StepFailed:
    detail = f"{found} after the run was planned, so {planned.unit} might not restart with its present configuration"
    return StepFailed(detail, reason=Reason.RUNTIME_CONFIGURATION_DRIFT)
