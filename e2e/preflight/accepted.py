"""Rows whose check is accepted: the run goes ahead, and it holds what runs, or it names exactly what is lost."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2e.cluster import Cluster, Object, conditions, disturbed, quickly
from e2e.lab import LabError
from e2e.lab.process import wait_until
from e2e.preflight.kinds import ROWS
from e2e.preflight.row import OLD, Outcome, Row, merged, name_of, program, wait_ready, wait_steady

HOLDS = frozenset({"Succeeded", "RolledBack"})
"""Phases in which nothing may be lost."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What a run in spite of a hazard comes to."""

    row: str  # name of the row that makes the hazard
    ends: frozenset[str] = HOLDS  # phases of the task in which the run may end
    # prefixes of ``namespace/name`` of pods that the hazard may cost; they must be named then
    lost: tuple[str, ...] = ()
    # whether the old kubelet would end containers too, so that the shield stays until the hazard is gone
    held: bool = False


def run_anyway(cluster: Cluster, accepted: Accepted) -> Outcome:
    """Make a hazard, accept its check, run the upgrade, judge it, and bring the node back to its version."""
    row = next(row for row in ROWS if row.name == accepted.row)
    began, ended, said, complaints = time.monotonic(), "?", "", []
    try:
        name = name_of(row)
        with row.make(cluster) as more:
            wait_steady(cluster)
            before = cluster.node.settled(quiet=2, limit=60)
            _begin(cluster, name, row, more)
            if accepted.held:
                wait_until("the shield to hold", lambda: _is_held(cluster) or None, timeout=180)
            else:
                cluster.wait_for_end(name)
            lost = disturbed(before, cluster.node.snapshot())
        cluster.wait_for_end(name)
        status = cluster.task()["status"]
        cluster.delete(name)
        cluster.wait_without_agent()
        ended, said = status["phase"], f"{status['reason']}: {status['message']}"
        pods = {each.pod for each in lost if not each.pod.startswith("nodeupgrade-system/")}
        complaints = [*_complaints(row, accepted, status, pods)]
        said += f"; lost: {', '.join(sorted(pods)) or 'nothing'}"
    except LabError as error:
        complaints.append(str(error))
    seconds = time.monotonic() - began
    complaints += _back(cluster)
    return Outcome(f"accepted/{row.name}", row.shows, row.reason, ended, round(seconds, 1), said, complaints)


def _begin(cluster: Cluster, name: str, row: Row, more: Object) -> None:
    accept = {"allowDowngrade": True, "preflight": {"accept": [row.shows]}, "verify": quickly()}
    cluster.apply(name, row.new, program(cluster, row.new), **merged(accept, row.spec, more))


def _is_held(cluster: Cluster) -> bool:
    """Report whether the old kubelet, too, wants to end a container, and the shield waits for a person."""
    status = cluster.task().get("status", {})
    return (status.get("phase"), status.get("reason")) == ("RollingBack", "ShieldRefusedCall")


def _complaints(row: Row, accepted: Accepted, status: Object, pods: set[str]) -> Iterator[str]:
    if status["phase"] not in accepted.ends:
        yield f"ended as {status['phase']}, not {' or '.join(sorted(accepted.ends))}"
    if not any(each.get("accepted") and each["check"] == row.shows for each in status.get("hazards", ())):
        yield f"nothing says that {row.shows} was accepted"
    if unexpected := {pod for pod in pods if not pod.startswith(accepted.lost or ("none",))}:
        yield f"lost as well: {', '.join(sorted(unexpected))}"
    counts = status.get("containers", {})
    named = {path.rpartition("/")[0] for key in ("restartedList", "endedList") for path in counts.get(key, ())}
    named |= {"/".join(each["name"].split("/")[:2]) for each in counts.get("ownerChanges", ())}
    if unnamed := {pod for pod in pods if pod not in named}:
        yield f"lost, and not named: {', '.join(sorted(unnamed))}"


def _back(cluster: Cluster) -> Sequence[str]:
    """Bring the node back to its version, once the hazard is gone."""
    try:
        wait_steady(cluster)
        if cluster.kubelet_version() != OLD:
            name = f"back-{int(time.time()) % 100000}"
            cluster.apply(name, OLD, cluster.pre_staged(OLD), allowDowngrade=True, verify=quickly())
            upgrade = cluster.wait_for_end(name)
            cluster.delete(name)
            cluster.wait_without_agent()
            if conditions(upgrade)["Succeeded"]["status"] != "True":
                return [f"and the way back did not succeed: {cluster.task()['status']['message']}"]
        wait_ready(cluster)
    except LabError as error:
        return [f"afterwards: {error}"]
    return []


ACCEPTED = (
    Accepted(row="runtime/changed"),
    Accepted(row="kubelet/gate-removed", ends=frozenset({"RolledBack"})),
    Accepted(row="pod/resize-policy"),
    Accepted(row="node/label-gone", held=True),
    Accepted(row="admission/operating-system", held=True),
    Accepted(row="confined/groups-policy"),
    Accepted(row="host/bound"),
    Accepted(row="kubelet/cgroup-driver", ends=frozenset({"RolledBack"})),
)
