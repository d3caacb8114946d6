"""Generate the Grafana dashboard of components/grafana-dashboard from the panels below.

Run ``python -m tools.generate_dashboard`` after changing a panel; ``--check`` only reports whether it is up to date.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from tools.generated import CHECKOUT, Wanted, main

DASHBOARD = CHECKOUT / "components" / "grafana-dashboard" / "dashboard.json"
WIDTH, STAT_HEIGHT, GRAPH_HEIGHT = 24, 4, 8
_SOURCE: Json = {"type": "prometheus", "uid": "$datasource"}
_OF = '{upgrade=~"$upgrade"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: its title, and queries (PromQL) by the legend of their series."""

    title: str
    queries: dict[str, str]
    unit: str = "short"  # Grafana's name of the unit
    alarming: bool = False  # as a number, red above zero


def _quantile(quantile: str, metric: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate({metric}_bucket[$__rate_interval])))"


def _standing(condition: str) -> str:
    return f'sum(nodeupgrade_condition{{upgrade=~"$upgrade",type="{condition}",status="True"}})'


NUMBERS = (
    Panel("Nodes upgraded", {"": 'sum(nodeupgrade_nodes{upgrade=~"$upgrade",phase="Succeeded"}) or vector(0)'}),
    Panel("Nodes in flight", {"": f"sum(nodeupgrade_inflight{_OF}) or vector(0)"}),
    Panel(
        "Containers restarted",
        {"": f"sum(increase(nodeupgrade_containers_restarted_total{_OF}[$__range])) or vector(0)"},
        alarming=True,
    ),
    Panel("Rollbacks", {"": f"sum(increase(nodeupgrade_rollbacks_total{_OF}[$__range])) or vector(0)"}, alarming=True),
    Panel("Rollouts paused", {"": f"sum(nodeupgrade_paused{_OF}) or vector(0)"}),
    Panel("Stalled", {"": f"{_standing('Stalled')} or vector(0)"}, alarming=True),
    Panel("Impeded", {"": f"{_standing('Impeded')} or vector(0)"}, alarming=True),
    Panel("Operator", {"{{version}}": "max by (version) (nodeupgrade_build_info)"}),
)
"""The first row: one number each."""

GRAPHS = (
    Panel(
        "Progress of rollouts",
        {
            f"{{{{upgrade}}}} {word}": f"max by (upgrade) (nodeupgrade_rollout_nodes{ending}{_OF})"
            for word, ending in (("total", ""), ("completed", "_completed"), ("failed", "_failed"))
        },
    ),
    Panel(
        "Time until the next window",
        {"{{upgrade}}": f"max by (upgrade) (nodeupgrade_next_window_timestamp_seconds{_OF}) - time()"},
        unit="s",
    ),
    Panel("Nodes by phase", {"{{phase}}": f"sum by (phase) (nodeupgrade_nodes{_OF})"}),
    Panel(
        "Nodes by wave", {"{{upgrade}} {{wave}} {{phase}}": f"sum by (upgrade, wave, phase) (nodeupgrade_nodes{_OF})"}
    ),
    Panel(
        "How long nodes have been in flight",
        {"{{upgrade}} {{node}}": f"max by (upgrade, node) (nodeupgrade_node_inflight_seconds{_OF})"},
        unit="s",
    ),
    Panel(
        "Phase, and what needs attention",
        {
            "{{upgrade}}: {{type}}, {{reason}}": (
                "max by (upgrade, type, reason) "
                '(nodeupgrade_condition{upgrade=~"$upgrade",type=~"Stalled|Impeded|Degraded",status="True"})'
            ),
            "{{upgrade}}: {{phase}}": f"max by (upgrade, phase) (nodeupgrade_phase{_OF})",
        },
    ),
    Panel(
        "Time without a kubelet",
        {
            "median": _quantile("0.5", "nodeupgrade_kubelet_down_seconds"),
            "99 %": _quantile("0.99", "nodeupgrade_kubelet_down_seconds"),
        },
        unit="s",
    ),
    Panel(
        "Containers and pods",
        {
            "hashes rewritten": "sum(increase(nodeupgrade_containers_rewritten_total[$__rate_interval]))",
            "containers restarted": "sum(increase(nodeupgrade_containers_restarted_total[$__rate_interval]))",
            "pods reported unready": "sum(increase(nodeupgrade_readiness_flaps_total[$__rate_interval]))",
        },
    ),
    Panel(
        "Containers by the kubelet whose hash they carry",
        {"{{kubelet}}": "max by (kubelet) (nodeupgrade_containers_by_hash)"},
    ),
    Panel(
        "Rollbacks by reason",
        {"{{reason}}": "sum by (reason) (increase(nodeupgrade_rollbacks_total[$__rate_interval]))"},
    ),
    Panel(
        "Passes by result",
        {"{{result}}": "sum by (result) (rate(nodeupgrade_reconcile_total[$__rate_interval]))"},
        unit="ops",
    ),
    Panel("Time to reconcile, 99 %", {"all": _quantile("0.99", "nodeupgrade_reconcile_duration_seconds")}, unit="s"),
    Panel("Queue", {"waiting": "sum(nodeupgrade_queue_depth)"}),
    Panel(
        "Requests to the API server",
        {"{{verb}} {{code}}": "sum by (verb, code) (rate(nodeupgrade_api_requests_total[$__rate_interval]))"},
        unit="reqps",
    ),
    Panel(
        "Time since the last event",
        {"{{kind}}": "max by (kind) (nodeupgrade_informer_last_event_age_seconds)"},
        unit="s",
    ),
    Panel(
        "Complete lists by reason",
        {
            "{{kind}} {{reason}}": (
                "sum by (kind, reason) (increase(nodeupgrade_informer_relists_total[$__rate_interval]))"
            )
        },
    ),
    Panel(
        "Lateness of the event loop, 99 %", {"timer": _quantile("0.99", "nodeupgrade_event_loop_lag_seconds")}, unit="s"
    ),
)


def dashboard() -> Json:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "nodeupgrade",
        "title": "nodeupgrade",
        "tags": ["kubernetes", "nodeupgrade"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), start=1)],
    }


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    query = "label_values(nodeupgrade_paused, upgrade)"
    yield {
        "name": "upgrade", "type": "query", "label": "NodeUpgrade", "datasource": _SOURCE, "query": query,
        "definition": query, "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _panels() -> Iterator[Json]:
    width = WIDTH // len(NUMBERS)
    for number, panel in enumerate(NUMBERS):
        place = {"x": number * width, "y": 0, "w": width, "h": STAT_HEIGHT}
        # A number is what is now; with a legend it is the legend that counts.
        shown = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "name" if "" not in panel.queries else "auto"}
        yield _panel(panel, "stat", place, shown)
    for number, panel in enumerate(GRAPHS):
        row, column = divmod(number, 2)
        place = {"x": column * WIDTH // 2, "y": STAT_HEIGHT + row * GRAPH_HEIGHT, "w": WIDTH // 2, "h": GRAPH_HEIGHT}
        yield _panel(panel, "timeseries", place, {"legend": {"displayMode": "list", "placement": "bottom"}})


def _panel(panel: Panel, kind: str, place: Json, options: Json) -> Json:
    steps = [{"color": "green", "value": None}, *([{"color": "red", "value": 0.001}] if panel.alarming else [])]
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for number, (legend, query) in enumerate(panel.queries.items())
    ]
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "type": kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }


def wanted() -> Wanted:
    """Return the file as it should be."""
    return {DASHBOARD: json.dumps(dashboard(), indent=2) + "\n"}


if __name__ == "__main__":
    main("tools.generate_dashboard", __doc__, wanted)
