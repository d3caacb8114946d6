"""A row: a hazard that is made on a real node, and how one look at the node with it must end."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from e2e import standin
from e2e.cluster import Cluster, Object, disturbed
from e2e.lab import LabError
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from e2e.looks import Found, Look, look

OLD, NEW = "1.30.14", "1.33.13"
REAL = frozenset({OLD, NEW, "1.15.0", "1.17.17", "1.20.15"})
"""Versions of kubelets that the labs have anyway."""
STEADY_SECONDS = 4
REFUSED, WARNED, SKIPPED = "refused", "warned", "skipped"
_PHASES = {REFUSED: "Refused", WARNED: "Prechecked", SKIPPED: "Skipped"}

Hazard = Callable[[Cluster], AbstractContextManager[Object]]
"""Makes the hazard and takes it away; what it yields is merged into the NodeUpgrade's spec."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One hazard."""

    name: str  # its kind and what it is
    shows: str  # the check that must find it, and no other
    reason: str  # with which reason
    make: Hazard  # makes it
    new: str = NEW  # the version that the NodeUpgrade is for
    ends: str = REFUSED  # what the finding does to the upgrade
    also: frozenset[str] = frozenset()  # other checks that rightly see the same hazard, or how it was made
    spec: Mapping[str, object] = field(default_factory=dict)  # differences in the NodeUpgrade


@dataclass(frozen=True)
class Outcome:
    """How a row ended."""

    row: str
    shows: str
    reason: str
    ended: str
    seconds: float
    said: str  # what the check said
    complaints: Sequence[str]  # what is not as it must be; empty if it went well


def show(cluster: Cluster, row: Row) -> Outcome:
    """Make a hazard, look at the node, take the hazard away, and judge what was said."""
    before, began = cluster.node.snapshot(), time.monotonic()
    complaints: list[str] = []
    said, ended = "", "?"
    try:
        usual = usually(cluster, row)
        began = time.monotonic()
        kubelet = _kubelet(cluster)
        with row.make(cluster) as more:
            if _kubelet(cluster) not in {kubelet, "0"}:
                wait_steady(cluster)
            seen = look(cluster, name_of(row), row.new, **merged(_given(cluster, row), row.spec, more))
        ended = seen.verdict
        said = "; ".join(dict.fromkeys(_text(each) for each in seen.found if each.check == row.shows))
        complaints = [*judged(row, seen, usual)]
    except LabError as error:
        complaints = [str(error)]
    seconds = time.monotonic() - began
    wait_ready(cluster)
    lost = disturbed(before, cluster.node.snapshot())
    complaints += [f"afterwards {len(lost)} instances are not what they were, first: {lost[0]}"] if lost else []
    return Outcome(row.name, row.shows, row.reason, ended, round(seconds, 1), said, complaints)


def judged(row: Row, seen: Look, usual: frozenset[str]) -> Sequence[str]:
    """List what is not as the row says."""
    found = [each for each in seen.found if each.check not in usual or each.check == row.shows]
    told = "; ".join(f"{each.check} ({each.reason}): {each.detail}" for each in found) or "nothing"
    wrong = []
    if seen.verdict != _PHASES[row.ends]:
        wrong.append(f"ended as {seen.verdict}, not {_PHASES[row.ends]}; found: {told}")
    mine = [each for each in found if each.check == row.shows]
    if not mine:
        wrong.append(f"{row.shows} found nothing; found: {told}")
    wrong += [f"{row.shows} says {each.reason}, not {row.reason}" for each in mine if each.reason != row.reason]
    wrong += [f"{each.check} found it too: {each.detail}" for each in found if each.check not in {row.shows, *row.also}]
    return wrong


_USUAL: dict[tuple[str, str], frozenset[str]] = {}


def usually(cluster: Cluster, row: Row) -> frozenset[str]:
    """Return what warns about the node without any hazard; nothing else forbids the upgrade then."""
    if row.new == cluster.kubelet_version():
        return frozenset()
    key = (cluster.lab.name, row.new)
    if key not in _USUAL:
        calm = {"allowDowngrade": True, "skewPolicy": "Warn", "artifact": program(cluster, row.new)}
        seen = look(cluster, f"without-{row.new.replace('.', '-')}", row.new, **calm)
        if seen.forbidding() - {row.shows}:
            raise LabError(f"without a hazard, the node is {seen.verdict}: {seen.found}")
        _USUAL[key] = frozenset(each.check for each in seen.found)
    return _USUAL[key]


def program(cluster: Cluster, version: str) -> Object:
    """Return the kubelet of a version that labs have, or a stand-in: an examination asks it for little."""
    if version in REAL:
        return cluster.pre_staged(version)
    with tempfile.TemporaryDirectory() as scratch:
        return cluster.pre_staged_file(standin.program(version, Path(scratch)), version)


def _given(cluster: Cluster, row: Row) -> Object:
    return {"allowDowngrade": True, "artifact": program(cluster, row.new)}


def wait_ready(cluster: Cluster) -> None:
    """Wait until every pod that ought to be ready is: a kubelet that was restarted probes anew."""
    count = sum(
        pod["status"].get("phase") == "Running" for pod in cluster.lab.api.list("pods", namespace=workload.NAMESPACE)
    )
    workload.wait_running(cluster.lab, count=count, timeout=120)
    wait_until("a Ready node", lambda: cluster.lab.node_readiness()[cluster.node.name] or None, timeout=120)


def wait_steady(cluster: Cluster) -> None:
    """Wait until the node stays Ready: a kubelet before 1.31 reports it as not ready once, soon after its start."""
    since = time.monotonic()

    def steady() -> bool | None:
        nonlocal since
        if not cluster.lab.node_readiness()[cluster.node.name]:
            since = time.monotonic()
        return time.monotonic() - since > STEADY_SECONDS or None

    wait_until("a node that stays Ready", steady, timeout=120)


def _kubelet(cluster: Cluster) -> str:
    return cluster.node.exec("systemctl", "show", "kubelet", "--property=MainPID", "--value").stdout.strip()


def merged(*specs: Mapping[str, object]) -> Object:
    """Merge specs; maps of the same key are merged too, except for artifacts, of which a spec has one."""
    whole: Object = {}
    for spec in specs:
        for key, value in spec.items():
            both = key != "artifact" and isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged(whole[key], value) if both else value  # type: ignore[arg-type]
    return whole


def name_of(row: Row) -> str:
    """Return a name for the row's NodeUpgrade."""
    return f"{row.name.replace('/', '-')}-{int(time.time()) % 100000}"


def _text(found: Found) -> str:
    return f"{found.subject}: {found.detail}" if found.subject else found.detail
