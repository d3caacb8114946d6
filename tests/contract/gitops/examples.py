"""Reads the examples that users copy."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from nodeupgrade.api.json import Json
from tests.contract.kube.conftest import ROOT

EXAMPLES = ROOT / "examples"
WRITTEN = datetime(2026, 11, 20, tzinfo=UTC)
"""Windows and blackouts of the examples are looked at from this day on."""

HEALTH = (EXAMPLES / "argocd" / "health.lua").read_text(encoding="utf-8")
"""The health script of the Argo CD example."""


def documents(folder: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every object of the examples below ``folder``, with the path it is in."""
    for path in sorted((EXAMPLES / folder).rglob("*.yaml")):
        for body in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            yield str(path.relative_to(EXAMPLES)), body


def upgrades(folder: str = "") -> dict[str, Json]:
    """Return the NodeUpgrades of the examples, by path and name."""
    found = ((path, body) for path, body in documents(folder) if body["kind"] == "NodeUpgrade")
    return {f"{path}:{body['metadata']['name']}": body for path, body in found}


def files() -> list[Path]:
    """Return the example files that hold NodeUpgrades."""
    return sorted({EXAMPLES / name.split(":")[0] for name in upgrades()})


def flux_expressions() -> dict[str, str]:
    """Return the health expressions of the Flux example."""
    (found,) = {yaml.safe_dump(rule) for spec in _kustomizations() for rule in spec.get("healthCheckExprs", [])}
    rule: dict[str, str] = yaml.safe_load(found)
    return {key: rule[key] for key in ("inProgress", "failed", "current")}


def ready_expression() -> str:
    """Return the expression by which the second Kustomization waits for the first."""
    (found,) = {needed["readyExpr"] for spec in _kustomizations() for needed in spec.get("dependsOn", [])}
    return str(found)


def _kustomizations() -> list[Json]:
    return [body["spec"] for _, body in documents("flux") if body["kind"] == "Kustomization"]


def _kustomization(generation: int, observed: int, **conditions: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {
        "metadata": {"name": "kubelet-canary", "generation": generation},
        "status": {"observedGeneration": observed, "conditions": listed},
    }


DEPENDENCIES = {
    "healthy": _kustomization(2, 2, Ready="True", Healthy="True"),
    "health not checked": _kustomization(2, 2, Ready="True"),
    "checking health": _kustomization(2, 2, Ready="Unknown", Healthy="Unknown", Reconciling="True"),
    "unhealthy": _kustomization(2, 2, Ready="False", Healthy="False"),
    "edited": _kustomization(3, 2, Ready="True", Healthy="True"),
}
"""The first Kustomization as Flux reports it (kustomize-controller v1.10), by what is true of it."""
