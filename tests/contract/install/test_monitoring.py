"""Alerts and dashboard, asked of a real Prometheus that scrapes the operator's metrics."""

import asyncio
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab.binaries.programs import prometheus
from e2e.lab.process import wait_until
from nodeupgrade.api.task.status import HashCensus
from nodeupgrade.api.upgrade.status import ConditionStatus, Slot
from nodeupgrade.controlplane.metrics.collector import serve_metrics
from nodeupgrade.controlplane.metrics.definitions import METRICS, MetricKind
from nodeupgrade.fleet.actions import Judge
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.decide.phase import STALLED_AFTER
from tests.builders.observed_rollout import NAME, Observed
from tests.contract.install.having import have
from tests.contract.kube.apiserver import free_ports
from tests.contract.kube.conftest import ROOT
from tools import generate_dashboard, generate_metrics

REAL = (pytest.mark.real, pytest.mark.timeout(600))
VARIABLES = {"$upgrade": ".*", "$__rate_interval": "1m", "$__range": "1h"}

SCRAPED = "cluster"
"""The label that scraping adds where one Prometheus sees several clusters."""

_EXPOSED = {
    spec.exposed + ending: (*spec.labels, *more)
    for spec in METRICS
    for ending, more in (
        {"_bucket": ("le",), "_count": (), "_sum": ()} if spec.kind is MetricKind.HISTOGRAM else {"": ()}
    ).items()
}
"""The labels of each series by its name."""


def queries() -> dict[str, str]:
    """Return every query of the dashboard, by panel and legend."""
    found = {
        f"{panel.title}: {legend}": query
        for panel in (*generate_dashboard.NUMBERS, *generate_dashboard.GRAPHS)
        for legend, query in panel.queries.items()
    }
    for variable, value in VARIABLES.items():
        found = {title: query.replace(variable, value) for title, query in found.items()}
    return found


def asked() -> list[str]:
    """Return every query of dashboard and alerts."""
    return [*queries().values(), *(rule["expr"] for rule in generate_metrics.alerts())]


@pytest.mark.parametrize("query", asked())
def test_a_query_asks_for_metrics_that_exist_by_labels_that_they_have(query: str) -> None:
    named = set(re.findall(r"\bnodeupgrade_\w+", query))
    assert named
    assert named <= _EXPOSED.keys()
    grouped = re.findall(r"\b(?:by|on) \((.*?)\)", query)
    labels = {label for group in grouped for label in group.split(", ")} | set(re.findall(r"[{,](\w+)[=!]", query))
    assert labels <= {SCRAPED, *(label for name in named for label in _EXPOSED[name])}


def test_an_alert_has_the_labels_that_it_tells_and_says_which_cluster() -> None:
    for rule in generate_metrics.alerts():
        told = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
        kept = re.findall(r"\bby \((.*?)\)", rule["expr"])
        assert kept
        assert all({SCRAPED, *told} <= set(group.split(", ")) for group in kept[:1]), rule["alert"]


def test_a_node_is_in_flight_too_long_when_the_operator_would_stall_for_it() -> None:
    (rule,) = (rule for rule in generate_metrics.alerts() if rule["alert"] == "NodeUpgradeNodeInFlightTooLong")
    assert rule["expr"].endswith(f" > {STALLED_AFTER.total_seconds():.0f}")


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "alerts").iterdir()}
    assert pages == {rule["alert"] for rule in generate_metrics.alerts()}
    for rule in generate_metrics.alerts():
        page = ROOT / rule["annotations"]["runbook_url"]
        assert page.read_text(encoding="utf-8").startswith(f"# {rule['alert']}\n")


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    named = set(re.findall(r"\bnodeupgrade_\w+", "\n".join(asked())))
    assert {spec.exposed for spec in METRICS if not any(name.startswith(spec.exposed) for name in named)} == {
        "nodeupgrade_informer_synced"
    }


class Scraping:
    """A Prometheus on loopback that has scraped an operator's metrics, and everything that happened to it."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        address = f"{self._address}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found


@pytest.fixture(scope="module")
def scraping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraping]:
    program, directory = have(prometheus), tmp_path_factory.mktemp("prometheus")
    observed = Observed()
    asyncio.run(observed.run())
    with serve_metrics(observed.metrics, "127.0.0.1", 0) as metrics:
        (port,) = free_ports(1)
        config = {
            "global": {"scrape_interval": "3s", "scrape_timeout": "3s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "operator", "static_configs": [{"targets": [f"127.0.0.1:{metrics}"]}]}],
        }
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        (directory / "rules.yaml").write_text(yaml.safe_dump(rule_file()))
        argv = [
            program, f"--config.file={directory}/prometheus.yaml", f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        with (directory / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
            try:
                found = Scraping(port)
                wait_until("a scrape", lambda: reached(found, "up == 1"), timeout=120)
                happen(observed)
                time_of_change = time.time()
                scraped_since = f"count_over_time(timestamp(up) [1m:1s]) >= 3 and timestamp(up) > {time_of_change + 2}"
                wait_until("a scrape after what happened", lambda: reached(found, scraped_since), timeout=120)
                yield found
            finally:
                process.terminate()


def happen(observed: Observed) -> None:
    """Let everything happen once that a counter with labels counts, and everything be wrong with the rollout."""
    metrics = observed.metrics
    upgrade = asyncio.run(observed.scene.upgrade(NAME))
    wrong = tuple(
        replace(each, type=kind, status=ConditionStatus.TRUE)
        for each, kind in zip(upgrade.status.conditions, ("Stalled", "Impeded", "Degraded"), strict=False)
    )
    opens = datetime.now(UTC) + timedelta(hours=8)
    status = replace(
        upgrade.status, next_window=opens, in_flight=(Slot(node=observed.tasks[0].name),), conditions=wrong
    )
    first, *others = observed.tasks
    counted = replace(first.status, hashes=HashCensus(kubelets={"1.30": 3}))
    observed.tasks = [replace(first, status=counted), *others]
    metrics.rollout_reconciled(NAME, Result(upgrade=replace(upgrade, status=status)), 0.25)
    judged = next(task for task in others if task.verdict is not None)
    assert judged.verdict is not None
    verdict = replace(judged.verdict, restarted=1)
    judge = Judge(task=judged, verdict=verdict, reason=verdict.reason, message="")
    metrics.node_reconciled(Result(applied=(judge,)), 0.1)
    metrics.answered("GET", "200")
    metrics.failed(1.0)
    metrics.lagged(0.7)


def reached(scraping: Scraping, expression: str) -> bool | None:
    """Report whether the Prometheus answers, and has found something."""
    try:
        return bool(scraping.query(expression)) or None
    except OSError:
        return None


def rule_file() -> dict[str, Any]:
    """Return the alerts as Prometheus itself reads them, which knows no custom resources."""
    body: dict[str, Any] = yaml.safe_load(generate_metrics.RULES.read_text(encoding="utf-8"))["spec"]
    return body


class TestOnPrometheus:
    pytestmark = [*REAL]  # noqa: RUF012 - as pytest wants it

    @pytest.mark.parametrize("title", queries())
    def test_a_panel_shows_something(self, scraping: Scraping, title: str) -> None:
        query = queries()[title].removesuffix(" or vector(0)")
        # A busy machine misses a scrape now and then, and series are stale until the next one.
        wait_until(query, lambda: scraping.query(query) or None, timeout=60)

    def test_control_a_metric_that_does_not_exist_shows_nothing(self, scraping: Scraping) -> None:
        assert scraping.query("sum(nodeupgrade_containers_lost_total)") == []

    def test_the_legends_name_labels_that_the_series_have(self, scraping: Scraping) -> None:
        for panel in generate_dashboard.GRAPHS:
            for legend in panel.queries:
                query = queries()[f"{panel.title}: {legend}"]
                labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
                assert all(labels <= series["metric"].keys() for series in scraping.query(query)), panel.title

    def test_prometheus_has_read_every_alert(self, scraping: Scraping) -> None:
        (group,) = scraping.ask("rules")["groups"]
        names = {rule["name"]: rule for rule in group["rules"]}
        assert names.keys() == {rule["alert"] for rule in generate_metrics.alerts()}
        assert all(not rule.get("lastError") for rule in names.values())


QUIET = {
    "nodeupgrade_build_info": "1+0x1440",
    'nodeupgrade_leader{pod="a"}': "1+0x1440",
    'nodeupgrade_leader{pod="b"}': "0+0x1440",
    'nodeupgrade_containers_restarted_total{upgrade="a",node="node-1"}': "0+0x1440",
    'nodeupgrade_paused{upgrade="a"}': "0+0x1440",
    'nodeupgrade_phase{upgrade="a",phase="Running"}': "1+0x1440",
    'nodeupgrade_condition{upgrade="a",type="Stalled",status="False",reason="Progressing"}': "1+0x1440",
    'nodeupgrade_condition{upgrade="a",type="Impeded",status="False",reason="Progressing"}': "1+0x1440",
    'nodeupgrade_node_inflight_seconds{upgrade="a",node="node-1"}': "60+0x1440",
    'nodeupgrade_node_timeout_seconds{upgrade="a"}': "1200+0x1440",
    'nodeupgrade_nodes{upgrade="a"}': "3+0x1440",
    'nodeupgrade_kubelet_down_seconds_count{upgrade="a"}': "0+1x1440",
    'nodeupgrade_kubelet_down_seconds_bucket{upgrade="a",le="30.0"}': "0+1x1440",
    'nodeupgrade_informer_last_event_age_seconds{kind="Node"}': "30+0x1440",
    'nodeupgrade_reconcile_total{result="success"}': "0+3x1440",
    'nodeupgrade_reconcile_total{result="error"}': "0+0x1440",
}
"""A day on which nothing went wrong, one sample a minute."""
WRONG: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "NodeUpgradeContainersRestarted": (
        {'nodeupgrade_containers_restarted_total{upgrade="a",node="node-2"}': "_x1430 1+0x10"},
        {"upgrade": "a", "node": "node-2"},
    ),
    "NodeUpgradeRolledBack": (
        {'nodeupgrade_rollbacks_total{upgrade="a",reason="KubeletDidNotStart"}': "_x1430 1+0x10"},
        {"upgrade": "a", "reason": "KubeletDidNotStart"},
    ),
    "NodeUpgradeKubeletDownTooLong": (
        {'nodeupgrade_kubelet_down_seconds_bucket{upgrade="a",le="30.0"}': "0+1x1430 1430+0x10"},
        {"upgrade": "a"},
    ),
    "NodeUpgradePaused": ({'nodeupgrade_paused{upgrade="a"}': "1+0x1440"}, {"upgrade": "a"}),
    "NodeUpgradeNodeInFlightTooLong": (
        {'nodeupgrade_node_inflight_seconds{upgrade="a",node="node-1"}': "60+0x1400 1000+60x40"},
        {"upgrade": "a", "node": "node-1"},
    ),
    "NodeUpgradeStalled": (
        {
            f'nodeupgrade_condition{{upgrade="{name}",type="Stalled",status="True",reason="HealthCheckFailed"}}': (
                "_x1400 1+0x40"
            )
            for name in ("a", "over")
        }
        | {'nodeupgrade_phase{upgrade="over",phase="Failed"}': "_x1400 1+0x40"},
        {"upgrade": "a", "reason": "HealthCheckFailed"},
    ),
    "NodeUpgradeImpeded": (
        {
            f'nodeupgrade_condition{{upgrade="{name}",type="Impeded",status="True",reason="WriteRefused"}}': (
                "_x1400 1+0x40"
            )
            for name in ("a", "over")
        }
        | {'nodeupgrade_phase{upgrade="over",phase="Failed"}': "1+0x1440"}
        | {'nodeupgrade_inflight{upgrade="over"}': "0+0x1440", 'nodeupgrade_inflight{upgrade="a"}': "1+0x1440"},
        {"upgrade": "a"},
    ),
    "NodeUpgradeOperatorAbsent": ({"nodeupgrade_build_info": "1+0x720 stale"}, {}),
    "NodeUpgradeNotOneLeader": ({'nodeupgrade_leader{pod="a"}': "1+0x1430 0+0x10"}, {}),
    "NodeUpgradeApiServerNotHeard": (
        {'nodeupgrade_informer_last_event_age_seconds{kind="Node"}': "30+0x1420 400+60x20"},
        {"kind": "Node"},
    ),
    "NodeUpgradeReconcileErrors": ({'nodeupgrade_reconcile_total{result="error"}': "0+0x720 0+1x720"}, {}),
}
"""What makes each alert fire at the end of the day, and the labels that it then has."""


def rule_test(name: str | None, series: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    """Return a test of all alerts for promtool: only `name` fires."""
    rules = {rule["alert"]: rule for rule in generate_metrics.alerts()}
    expected = []
    for alert in rules:
        fires = []
        if alert == name:
            told = {
                key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels[m[1]], text)
                for key, text in rules[alert]["annotations"].items()
            }
            fires = [{"exp_labels": {**labels, **rules[alert]["labels"]}, "exp_annotations": told}]
        expected.append({"eval_time": "1440m", "alertname": alert, "exp_alerts": fires})
    inputs = [{"series": key, "values": values} for key, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def of_cluster(name: str, series: dict[str, str]) -> dict[str, str]:
    """Return series as a Prometheus has them that sees several clusters."""
    split = ((*key.partition("{"), values) for key, values in series.items())
    return {f'{metric}{{{SCRAPED}="{name}"{f",{rest}" if rest else "}"}': values for metric, _, rest, values in split}


def run_rule_test(directory: Path, test: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (directory / "rules.yaml").write_text(yaml.safe_dump(rule_file()))
    body = {"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": [test]}
    (directory / "test.yaml").write_text(yaml.safe_dump(body))
    argv = [have(lambda: prometheus("promtool")), "test", "rules", str(directory / "test.yaml")]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


class TestAlerts:
    pytestmark = [*REAL]  # noqa: RUF012 - as pytest wants it

    @pytest.mark.parametrize("name", WRONG)
    def test_each_fires_alone(self, tmp_path: Path, name: str) -> None:
        changed, labels = WRONG[name]
        done = run_rule_test(tmp_path, rule_test(name, {**QUIET, **changed}, labels))
        assert done.returncode == 0, done.stderr + done.stdout

    def test_none_fires_while_nothing_is_wrong(self, tmp_path: Path) -> None:
        done = run_rule_test(tmp_path, rule_test(None, QUIET, {}))
        assert done.returncode == 0, done.stderr + done.stdout

    @pytest.mark.parametrize("name", [None, *WRONG])
    def test_of_two_clusters_one_is_named(self, tmp_path: Path, name: str | None) -> None:
        """Two clusters with a leader each are no alert."""
        changed, labels = WRONG.get(name or "", ({}, {}))
        series = {**of_cluster("well", QUIET), **of_cluster("ill", {**QUIET, **changed})}
        done = run_rule_test(tmp_path, rule_test(name, series, {**labels, SCRAPED: "ill"}))
        assert done.returncode == 0, done.stderr + done.stdout

    def test_prometheus_understands_every_query_of_the_dashboard(self, tmp_path: Path) -> None:
        rules = [{"record": "x", "labels": {"panel": title}, "expr": query} for title, query in queries().items()]
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        argv = [have(lambda: prometheus("promtool")), "check", "rules", str(tmp_path / "rules.yaml")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout

    def test_control_an_alert_that_does_not_fire_is_noticed(self, tmp_path: Path) -> None:
        done = run_rule_test(tmp_path, rule_test("NodeUpgradePaused", QUIET, {"upgrade": "a"}))
        assert done.returncode != 0


def test_each_alert_is_made_to_fire() -> None:
    assert WRONG.keys() == {rule["alert"] for rule in generate_metrics.alerts()}
