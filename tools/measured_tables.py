"""The tables of docs/measured: which columns of the data are shown, and what is plotted."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tools.plots import Bar, Point, Theme, bars, points

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]
NONE = "–"
OUTCOMES = ("Succeeded", "RolledBack", "Refused", "Failed")
IDEAL = "of the ideal"
RUNTIMES = {"containerd": "containerd", "crio": "CRI-O", "docker": "Docker"}
"""How the lab and people call them."""
SOAKED = RUNTIMES | {"containerd-2": "containerd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file of data, and what the page shows of it."""

    name: str
    shown: Callable[[Rows], Iterable[Sequence[str]]]  # headings first
    plot: Callable[[Rows, Theme], str] | None = None
    described: str = ""  # what the plot shows, for whoever does not see it


# --- cells -----------------------------------------------------------------------------------------------------------


def _cell(value: object) -> str:
    if isinstance(value, dict):
        value = " to ".join(dict.fromkeys(map(str, value.values())))
    return NONE if value is None else str(value).replace("|", "\\|")


def _of(row: Row, part: str, whole: str) -> str:
    if row.get(part) is None:
        return NONE
    return f"{row[part]:,} of {row[whole]:,}" if whole in row else f"{row[part]:,}"


def _ended(row: Row) -> str:
    reason = f", `{row['reason']}`" if "reason" in row else ""
    return f"{row.get('ended', NONE)}{reason}"


def _median(row: Row, field: str) -> str:
    found = row.get(field)
    return NONE if found is None else " / ".join(f"{each:.2f}" for each in found.values())


def _range(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return NONE
    least, most = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return least if least == most else f"{least} to {most}"


def _counted(rows: Rows) -> str:
    found = Counter(row["ended"] for row in rows)
    broken = sum("complaints" in row for row in rows)
    counts = (f"{outcome} {count}" for outcome, count in found.most_common())
    return ", ".join((*counts, *([f"**{broken} broken**"] if broken else [])))


def _columns(*columns: tuple[str, str]) -> Callable[[Rows], Iterator[Sequence[str]]]:
    """Return what shows these fields of every row; a column is a heading and the name of a field."""

    def shown(rows: Rows) -> Iterator[Sequence[str]]:
        yield [heading for heading, _ in columns]
        for row in rows:
            yield [_ended(row) if field == "ended" else _cell(row.get(field)) for _, field in columns]

    return shown


# --- tables ----------------------------------------------------------------------------------------------------------


def _pairs(rows: Rows) -> Iterator[Sequence[str]]:
    yield (
        "runtime", "pods", "pair", "ended", "kubelet down, s", "hashes rewritten", "disturbed",
        "a plain swap restarted", "note",
    )  # fmt: skip
    for row in rows:
        yield (
            row["runtime"],
            _cell(row.get("pods")),
            f"{row['from']} → {row['to']}",
            _ended(row),
            _cell(row.get("kubelet_down_seconds")),
            _of(row, "hashes_rewritten", "hashes"),
            _of(row, "disturbed", "instances"),
            _of(row, "naive_swap_restarted", "naive_swap_containers"),
            row.get("note", ""),
        )


def _down(rows: Rows) -> Iterator[Sequence[str]]:
    yield "runtime", "version", "pods", "bare kubelet restart", "bare runtime restart", "kubelet down, s", "ratio"
    for row in rows:
        yield (
            row["runtime"],
            row["version"],
            str(row["pods"]),
            _median(row, "bare_kubelet_restart_seconds"),
            _median(row, "bare_runtime_restart_seconds"),
            _median(row, "kubelet_down_seconds"),
            _median(row, "ratio"),
        )


def _steps(rows: Rows) -> Iterator[Sequence[str]]:
    steps = list(
        dict.fromkeys(step for row in sorted(rows, key=lambda row: -len(row["step_ms"])) for step in row["step_ms"])
    )
    yield "pods", "version", *steps
    for row in rows:
        yield str(row["pods"]), row["version"], *(_cell(row["step_ms"].get(step)) for step in steps)


def _clients(rows: Rows) -> Iterator[Sequence[str]]:
    yield (
        "pair",
        "readiness guard",
        "endpoints lost",
        "endpoint-seconds lost",
        "requests failed",
        "node not Ready, s",
        "kubelet down, s",
    )
    for row in rows:
        yield (
            f"{row['from']} → {row['to']}",
            row["readiness_guard"],
            _of(row, "endpoints_lost", "endpoints"),
            str(row["endpoint_seconds_lost"]),
            _of(row, "requests_failed", "requests"),
            str(row["node_not_ready_seconds"]),
            _cell(row["kubelet_down_seconds"]),
        )


def _kind(row: Row) -> str:
    kind, *rest = row["fault"].split("/")
    return f"at, {rest[-1]}" if kind == "at" and rest else kind if len(kind.split()) == 1 else "held"


def _faults(rows: Rows) -> Iterator[Sequence[str]]:
    yield "faults", *(f"{heading}" for runtime in RUNTIMES.values() for heading in (runtime, "down, s"))
    for kind in sorted({_kind(row) for row in rows}):
        cells = list[str]()
        for runtime in RUNTIMES:
            of = [row for row in rows if row["runtime"] == runtime and _kind(row) == kind]
            downs = [row["kubelet_down_seconds"] for row in of if "kubelet_down_seconds" in row]
            cells += [_counted(of) or NONE, _range(downs)]
        yield kind, *cells
    yield (
        "all",
        *(cell for runtime in RUNTIMES for cell in (_counted([r for r in rows if r["runtime"] == runtime]), "")),
    )


def _series(rows: Rows) -> Iterator[Sequence[str]]:
    yield "series", "measured", "rows"
    for series in dict.fromkeys(row["series"] for row in rows):
        of = [row for row in rows if row["series"] == series]
        yield series, _cell(of[0].get("measured")), str(len(of))


def _preflight(rows: Rows) -> Iterator[Sequence[str]]:
    yield "kind", "rows", "checks", "ended"
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of = [row for row in rows if row["kind"] == kind]
        yield (
            kind,
            str(len(of)),
            str(len({row["check"] for row in of if row["check"].isidentifier()}) or NONE),
            _counted(of),
        )


def _kubeadm(rows: Rows) -> Iterator[Sequence[str]]:
    yield "what", "ended", "disturbed", "API server requests failed", "etcd requests failed"
    for row in rows:
        yield (
            row["what"],
            _ended(row),
            _of(row, "disturbed", "containers"),
            _of(row, "api_server_failed", "api_server_asked"),
            _of(row, "etcd_failed", "etcd_asked"),
        )


def _busy(rows: Rows) -> Iterator[Sequence[str]]:
    yield (
        "pods",
        "what happens besides",
        "ended",
        "attempts",
        "refused before",
        "kubelet down, s",
        "bare restarts, s",
        "load",
    )
    for size, shape in dict.fromkeys((row["pods"], row["shape"]) for row in rows):
        of = [row for row in rows if (row["pods"], row["shape"]) == (size, shape)]
        yield (
            str(size),
            shape,
            _counted(of),
            _range([row["attempts"] for row in of], 0),
            str(sum(row["refused"] for row in of)),
            _range([row["kubelet_down_seconds"] for row in of], 2),
            _range([row["floor_seconds"] for row in of if row.get("floor_seconds") is not None], 2),
            _range([row["load"] for row in of], 0),
        )


def _soak(rows: Rows) -> Iterator[Sequence[str]]:
    """Sum up. The bounds are Poisson's upper ones of 95 %, where nothing was lost. Naive swaps come last."""
    naive = [row for row in rows if row.get("naive")]
    swaps = [row for row in rows if not row.get("naive")]
    yield "swaps", "number", "containers and sandboxes", "ended", "swaps that lost something", "lost of these"
    whole = [row for row in swaps if not row.get("reboots")]
    plain, faulty = ([row for row in whole if bool(row.get("fault")) is fault] for fault in (False, True))
    for runtime in sorted(set(map(_runtime, swaps))):
        yield _summed(f"without a fault, {runtime}", [each for each in plain if _runtime(each) == runtime])
    yield _summed("without a fault, all", plain)
    yield _summed("with a fault", faulty)
    yield _summed("all of these", whole)
    rebooted = [row for row in swaps if row.get("reboots")]
    yield *_summed("with a power cut or another reboot, which ends every container", rebooted)[:4], "", ""
    if naive:
        every, restarted = sum(row["containers"] for row in naive), sum(row["restarted"] for row in naive)
        lost = sum(row["restarted"] > 0 for row in naive)
        yield "the usual way, without nodeupgrade", f"{len(naive):,}", f"{every:,}", "", f"{lost:,}", f"{restarted:,}"


def _runtime(row: Row) -> str:
    """Return the name and the minor version of a swap's runtime."""
    return f"{SOAKED[row['runtime']]} {'.'.join(row['runtime_version'].split('.')[:2])}"


def _summed(what: str, of: Rows) -> Sequence[str]:
    every = sum(row["containers"] + row["sandboxes"] for row in of)
    swaps = sum(bool(row.get("disturbed")) for row in of)
    lost = sum(len(row.get("disturbed", ())) for row in of)
    return what, f"{len(of):,}", f"{every:,}", _counted(of), _bounded(swaps, len(of)), _bounded(lost, every)


def _bounded(lost: int, of: int) -> str:
    """Return how many were lost; of none, also which share may have been (3/n). One that was lost is told by itself."""
    return f"{lost:,}" if lost or not of else f"0, at most {min(1.0, -math.log(0.05) / of):.3%}"


def _conformance(rows: Rows) -> Iterator[Sequence[str]]:
    yield "area", "specs", "passed on both", "failed on both", "skipped on both", "differ"
    for area in (*sorted({row["area"] for row in rows}), "all"):
        of = [row for row in rows if area in {row["area"], "all"}]
        found = Counter(row["upgraded"] if row["upgraded"] == row["fresh"] else "differ" for row in of)
        yield area, str(len(of)), *(str(found[state]) for state in ("passed", "failed", "skipped", "differ"))


def _seconds(rows: Rows) -> Iterator[Sequence[str]]:
    parts = list(dict.fromkeys(part for row in rows for part in row["seconds"]))
    yield "version", "to", "load", *parts, "in all"
    for row in rows:
        seconds = row["seconds"]
        yield (
            row["version"],
            row["to"],
            _cell(row.get("load")),
            *(_cell(seconds.get(part)) for part in parts),
            f"{sum(seconds.values()):.1f}",
        )


def _layouts(rows: Rows) -> Iterator[Sequence[str]]:
    yield "layout", "source", "20 pods", "disturbed", "40 pods", "disturbed", "a plain swap restarted"
    for row in rows:
        yield (
            row["layout"],
            row["source"],
            _phases(row["runs"]),
            _of(row, "disturbed", "containers"),
            _phases(row["runs_with_40_pods"]),
            _of(row, "disturbed_with_40_pods", "containers_with_40_pods"),
            _of(row, "naive_swap_restarted", "naive_swap_containers"),
        )


def _phases(phases: Sequence[str]) -> str:
    return ", ".join(f"{phase} {count}" for phase, count in Counter(phases).items())


def _machines(rows: Rows) -> Iterator[Sequence[str]]:
    yield "machine", "what", "ended", "disturbed", "kubelet down, s"
    for row in rows:
        yield (
            row["machine"],
            row["what"],
            _ended(row),
            _of(row, "disturbed", "containers"),
            _cell(row.get("kubelet_down_seconds")),
        )


# --- plots -----------------------------------------------------------------------------------------------------------


def _plot_down(rows: Rows, theme: Theme) -> str:
    """Plot the last measurement of each runtime and size, beside the bare restarts of both."""
    last = {(row["runtime"], row["pods"]): row for row in rows if "kubelet_down_seconds" in row}
    series = dict[str, list[Point]]()
    for runtime, pods in sorted(
        last, key=lambda key: ([key[0].startswith(name) for name in RUNTIMES.values()].index(True), key[1])
    ):
        row = last[runtime, pods]
        down = row["kubelet_down_seconds"]
        series.setdefault(runtime, []).append(Point(pods, down["median"], down["least"], down["most"], _floor(row)))
    note = "pods; dots are medians, dashes the bare restarts of runtime and kubelet"
    return points("Seconds without a healthy kubelet", series, theme, note=note)


def _floor(row: Row) -> float | None:
    """Return the median of what both bare restarts take together."""
    if "both_restarts_seconds" in row:
        return float(row["both_restarts_seconds"]["median"])
    parts = [row.get(f"bare_{each}_restart_seconds") for each in ("kubelet", "runtime")]
    return sum(float(part["median"]) for part in parts if part) if all(parts) else None


def _plot_rollouts(rows: Rows, theme: Theme) -> str:
    """Plot the share of the ideal that the operator reaches as it is now."""
    now = rows[0]["series"]
    drawn = [
        Bar(f"{row['nodes']:,} nodes, {title}", {IDEAL: row[field]})
        for row in rows
        if row["series"] == now
        for title, field in (("as a whole", "of_ideal"), ("after the first round", "of_ideal_after_first_round"))
    ]
    return bars("Pace of a rollout, as a share of the ideal", (IDEAL,), drawn, theme, most=1.0, goal=0.85)


def _plot_faults(rows: Rows, theme: Theme) -> str:
    of = [row for row in rows if row["runtime"] == "containerd"]
    counts = {kind: Counter(row["ended"] for row in of if _kind(row) == kind) for kind in sorted(set(map(_kind, of)))}
    drawn = [Bar(kind, {each: found[each] for each in OUTCOMES if found[each]}) for kind, found in counts.items()]
    return bars(f"How {len(of)} upgrades with a fault ended, containerd", OUTCOMES, drawn, theme)


# --- the page --------------------------------------------------------------------------------------------------------

TABLES = (
    Table(name="version-pairs", shown=_pairs),
    Table(name="kubelet-down", shown=_down, plot=_plot_down, described="seconds without a healthy kubelet over pods"),
    Table(name="kubelet-down-steps", shown=_steps),
    Table(name="busy", shown=_busy),
    Table(name="soak", shown=_soak),
    Table(name="node-conformance", shown=_conformance),
    Table(name="node-seconds", shown=_seconds),
    Table(
        name="runtime-calls",
        shown=_columns(("what", "what"), ("at load 5, ms", "load_5_ms"), ("at load 13 to 21, ms", "load_13_to_21_ms")),
    ),
    Table(
        name="rescue-calls",
        shown=_columns(
            ("situation", "situation"),
            ("call", "call"),
            ("places", "places"),
            *((mode, mode) for mode in ("silent", "garbled", "failing", "hanging", "killed")),
        ),
    ),
    Table(name="bundle", shown=_columns(("what", "what"), ("MB", "mb"), ("seconds at most", "seconds"))),
    Table(name="hashing", shown=_columns(("era", "era"), ("containers a second", "containers_per_second"))),
    Table(
        name="model",
        shown=_columns(
            ("world", "world"),
            ("disturbances", "disturbances"),
            ("states", "states"),
            ("transitions", "transitions"),
            ("depth", "depth"),
            ("seen", "seen"),
            ("walks", "walks"),
            ("broken rules", "broken_rules"),
            ("CPU, s", "cpu_seconds"),
            ("memory, MB", "memory_mb"),
        ),
    ),
    Table(name="clients", shown=_clients),
    Table(name="clients-disturbed", shown=_columns(("what", "what"), ("seen", "seen"))),
    Table(
        name="rollouts",
        shown=_columns(
            ("series", "series"),
            ("nodes", "nodes"),
            ("in flight", "in_flight"),
            ("round trip, ms", "round_trip_ms"),
            ("spread", "spread"),
            ("of the ideal", "of_ideal"),
            ("after the first round", "of_ideal_after_first_round"),
            ("writes a node", "writes_per_node"),
            ("CPU a node, s", "cpu_seconds_per_node_after_first_round"),
            ("memory, MB", "memory_mb"),
        ),
        plot=_plot_rollouts,
        described="share of the ideal for 500 and 5,000 nodes",
    ),
    Table(
        name="fleet-idle",
        shown=_columns(
            ("nodes", "nodes"),
            ("CPU until all are known, s", "known_after_cpu_seconds"),
            ("memory before, MB", "memory_mb_before"),
            ("then", "memory_mb"),
            ("at most while listing", "memory_mb_most_while_listing"),
            ("after 10,000 events", "memory_mb_after_10000_events"),
            ("CPU of an event, ms", "event_cpu_ms"),
        ),
    ),
    Table(name="faults", shown=_faults, plot=_plot_faults, described="faults of each kind by outcome"),
    Table(name="fault-series", shown=_series),
    Table(name="preflight", shown=_preflight),
    Table(name="kubeadm", shown=_kubeadm),
    Table(name="layouts", shown=_layouts),
    Table(name="machines", shown=_machines),
    Table(
        name="power-cuts",
        shown=_columns(
            ("from", "from"),
            ("to", "to"),
            ("copies", "copies"),
            ("exactly as before", "exactly_as_before"),
            ("otherwise", "otherwise"),
        ),
    ),
    Table(
        name="go-readers",
        shown=_columns(
            ("reader", "reader"),
            ("texts", "texts"),
            ("read alike", "alike"),
            ("refused by both", "refused"),
            ("differ", "differing"),
        ),
    ),
)
