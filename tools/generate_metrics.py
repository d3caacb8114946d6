"""Generate the tables of docs/generated/metrics.md from the catalogue of metrics and the alerts.

Run ``python -m tools.generate_metrics`` after changing either; ``--check`` only reports whether the page is up to date.
"""

from collections.abc import Iterator

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.controlplane.metrics.definitions import METRICS, MetricSpec, MetricSubject
from tools.generated import CHECKOUT, Wanted, filled, main

PAGE = CHECKOUT / "docs" / "generated" / "metrics.md"
RULES = CHECKOUT / "components" / "prometheus-rule" / "prometheus-rule.yaml"


def alerts() -> list[Json]:
    """Return the alerts."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def wanted() -> Wanted:
    """Return the page as it should be."""
    metrics = "\n".join("\n".join(_metrics(subject)) for subject in MetricSubject)
    text = filled(PAGE.read_text(encoding="utf-8"), "metrics", metrics)
    return {PAGE: filled(text, "alerts", "\n".join(_alerts()))}


def _metrics(subject: MetricSubject) -> Iterator[str]:
    yield from (f"## {subject}", "", "| metric | kind | meaning |", "|---|---|---|")
    for spec in METRICS:
        if spec.subject is subject:
            yield f"| `{_name(spec)}` | {spec.kind} | {spec.meaning} |"
    yield ""


def _name(spec: MetricSpec) -> str:
    return spec.exposed + ("{" + ",".join(spec.labels) + "}" if spec.labels else "")


def _alerts() -> Iterator[str]:
    yield from ("| alert | severity | after | when |", "|---|---|---|---|")
    for alert in alerts():
        name, summary = alert["alert"], alert["annotations"]["summary"]
        after = alert.get("for", "at once")
        yield f"| [`{name}`](../alerts/{name}.md) | {alert['labels']['severity']} | {after} | {summary} |"
    yield ""


if __name__ == "__main__":
    main("tools.generate_metrics", __doc__, wanted)
