"""Generate the Helm chart charts/nodeupgrade from the manifests, and the table of its values.

Run ``python -m tools.generate_chart`` after changing a manifest; ``--check`` only reports whether the chart is up to
date. A release calls it with the name of its image and a destination.
"""

import base64
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.chart.templates import template
from tools.chart.values import Value, defaults_file, schema_of, table, values
from tools.documents import documents
from tools.generated import CHECKOUT, Wanted, main

CHART = CHECKOUT / "charts" / "nodeupgrade"
WRITTEN_BY_HAND = (
    ".helmignore",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/allowed.yaml",
    "templates/cluster-api-rollouts.yaml",
    "templates/crds.yaml",
    "templates/extra-objects.yaml",
    "templates/uninstall-check.yaml",
)
DASHBOARD = "components/grafana-dashboard/dashboard.json"

_CONDITIONS = {"namespace.yaml": ".Values.namespace.create"}
_OTHERS = {
    "overlays/with-nodes-proxy/nodes-proxy.yaml": ".Values.nodesProxy",
    "overlays/with-four-eyes/four-eyes.yaml": ".Values.fourEyes",
    "overlays/with-cluster-api/cluster-api.yaml": ".Values.clusterAPI.enabled",
    "components/service-monitor/service-monitor.yaml": ".Values.monitoring.serviceMonitor",
    "components/prometheus-rule/prometheus-rule.yaml": ".Values.monitoring.prometheusRule",
    "components/grafana-dashboard/config-map.yaml": ".Values.monitoring.dashboard",
    "components/cleanup/cleanup.yaml": ".Values.cleanup",
}
_DRAWN = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path fill="#326ce5" d="M32 4l24 14v28L32 60 8 46V18z"/>\
<path fill="none" stroke="#fff" stroke-width="5" d="M20 38l12-12 12 12"/></svg>"""
_ICON = f"data:image/svg+xml;base64,{base64.b64encode(_DRAWN.encode()).decode()}"

_CRDS = ("nodeupgrades.yaml", "nodeupgradetasks.yaml")


def resources() -> list[str]:
    """Return the files of manifests/, in their order."""
    listed = yaml.safe_load((CHECKOUT / "manifests/kustomization.yaml").read_text("utf-8"))["resources"]
    return [name for name in listed if not name.startswith("../")]


def version() -> str:
    """Return the version of this checkout."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def chart_values(image: str = "nodeupgrade", source: str = "") -> tuple[Value, ...]:
    """Return the chart's values; `image` is without a tag, and the files of this version can be read below `source`."""
    texts = ((CHECKOUT / "manifests" / name).read_text("utf-8") for name in resources())
    (operator,) = (body for text in texts for body in documents(text) if body["kind"] == "Deployment")
    allowed = yaml.safe_load((CHECKOUT / "manifests/allowed.yaml").read_text("utf-8"))
    return values(operator, allowed, image=image, source=source)


def generated(image: str = "nodeupgrade", source: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and content of every generated file of the chart."""
    yield "Chart.yaml", _chart_yaml(source)
    every = chart_values(image, source)
    yield "README.md", _readme(every)
    yield "values.yaml", defaults_file(every)
    yield "values.schema.json", json.dumps(schema_of(every), indent=2, ensure_ascii=False) + "\n"
    sources = {f"manifests/{name}": _CONDITIONS.get(name, "") for name in resources()} | _OTHERS
    for path, condition in sources.items():
        text = (CHECKOUT / path).read_text("utf-8")
        yield f"templates/{Path(path).name}", template(path, text, condition=condition)
    for name in _CRDS:
        yield f"files/crds/{name}", (CHECKOUT / "crds" / name).read_text("utf-8")
        yield f"files/crds/without-cel/{name}", (CHECKOUT / "crds/without-cel" / name).read_text("utf-8")
    yield "files/dashboard.json", (CHECKOUT / DASHBOARD).read_text("utf-8")


def _chart_yaml(source: str) -> str:
    where = {"home": source, "sources": [source]} if source else {}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    chart = {
        "apiVersion": "v2",
        "name": project["name"],
        "description": project["description"],
        "type": "application",
        "version": project["version"],
        "appVersion": project["version"],
        "kubeVersion": ">=1.16.0-0",
        "keywords": project["keywords"],
        "icon": _ICON,
        **where,
        "annotations": {"artifacthub.io/license": project["license"]},
    }
    return "# Generated from pyproject.toml; to change it: make chart\n" + yaml.safe_dump(chart, sort_keys=False)


def _readme(every: tuple[Value, ...]) -> str:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    return f"""<!-- Generated from tools/chart/values.py; to change it: make chart -->

# {project["name"]}

{project["description"]}

```console
$ helm install nodeupgrade PATH-OR-URL --namespace nodeupgrade-system --create-namespace
```

Nothing runs on your nodes until a NodeUpgrade selects them. To upgrade the chart, use `--reset-then-reuse-values`, so
that values which are new get their defaults. `helm uninstall` fails while nodes are in flight; end the rollouts first.

## Values

{table(every)}"""


def write(destination: Path, image: str, source: str = "") -> None:
    """Write the whole chart elsewhere, with what is written by hand."""
    for name in WRITTEN_BY_HAND:
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHART / name, destination / name)
    for name, text in generated(image, source):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (destination / name).write_text(text, encoding="utf-8")


def wanted() -> Wanted:
    """Return the chart of this checkout."""
    return {CHART / name: text for name, text in generated()}


def there() -> set[Path]:
    """Return the files of the chart that are there and not written by hand."""
    return {path for path in CHART.rglob("*") if path.is_file()} - {CHART / name for name in WRITTEN_BY_HAND}


if __name__ == "__main__":
    main("tools.generate_chart", __doc__, wanted, there)
