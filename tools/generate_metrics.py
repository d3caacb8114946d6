"""Generate the tables of docs/metrics.md from the catalogue of metrics and the alerts.

Run ``python -m tools.generate_metrics`` after changing either; ``--check`` only reports whether the page is up to date.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from nodeupgrade.adapters.observability.catalogue import METRICS, MetricSpec, MetricSubject
from nodeupgrade.api.json import Json

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs" / "metrics.md"
RULES = CHECKOUT / "components" / "prometheus-rule" / "prometheus-rule.yaml"


def alerts() -> list[Json]:
    """Return the alerts."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def filled(text: str, table: str, content: str) -> str:
    """Return a page with the content of one of its tables."""
    begin, end = f"<!-- {table} -->\n", f"<!-- end of {table} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{content}{end}{rest.partition(end)[2]}"


def page() -> str:
    """Return the text of the page."""
    metrics = "\n".join("\n".join(_metrics(subject)) for subject in MetricSubject)
    text = filled(PAGE.read_text(encoding="utf-8"), "metrics", metrics)
    return filled(text, "alerts", "\n".join(_alerts()))


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
        summary = alert["annotations"]["summary"]
        yield f"| `{alert['alert']}` | {alert['labels']['severity']} | {alert.get('for', 'at once')} | {summary} |"
    yield ""


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when it is outdated")
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"outdated: {PAGE.name}; run python -m tools.generate_metrics")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
