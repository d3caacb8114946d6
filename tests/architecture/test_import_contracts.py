"""The contracts of pyproject.toml hold, and each of them would notice."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

SLICES = "Slices point downwards; fleet and node know nothing of each other"
DECISIONS = "Decisions, and the steps of a run, do no I/O"
PORTS = "Who uses a port does not build its adapter"
CYCLES = "No cycles anywhere"
CEL = "CEL stays where our own rules, and in a process of its own those of others, are evaluated"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(CHECKOUT / "operator", tmp_path / "operator", ignore=ignored)) / "nodeupgrade"


def broken(package: Path) -> dict[str, str]:
    """Return what is said about each contract that the package breaks, by its name."""
    linter = Path(sys.executable).with_name("lint-imports")
    environment = {"PYTHONPATH": str(package.parent), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    seen = subprocess.run(
        [linter, "--no-cache", "--no-logo"],
        cwd=package.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    verdicts = [line.rsplit(" [", 1)[0] for line in seen.stdout.splitlines()]
    assert any(line.endswith((" KEPT", " BROKEN")) for line in verdicts), seen.stdout + seen.stderr
    names = [line.removesuffix(" BROKEN") for line in verdicts if line.endswith(" BROKEN")]
    starts = [seen.stdout.index(f"\n{name}\n{'-' * len(name)}\n") for name in names]
    sections = itertools.pairwise([*starts, len(seen.stdout)])
    return {name: seen.stdout[start:end] for name, (start, end) in zip(names, sections, strict=True)}


def test_all_contracts_hold_and_allow_what_they_should(package: Path) -> None:
    with (package / "findings/__init__.py").open("a") as file:
        file.write("\nimport nodeupgrade.api.reasons\n")
    assert broken(package) == {}


BREACHES = [
    ("controlplane/__init__.py", "import nodeupgrade.cli", SLICES),
    ("fleet/__init__.py", "import nodeupgrade.node.own_directories", SLICES),
    ("node/__init__.py", "import nodeupgrade.fleet.actions", SLICES),
    ("node/plan/request.py", "import nodeupgrade.node.checks.registry", "A node's rooms point downwards"),
    ("fleet/setbacks.py", "import nodeupgrade.fleet.decide.waves", "A fleet's rooms point downwards"),
    ("findings/__init__.py", "import os", DECISIONS),
    ("kubelethash/__init__.py", "import time", DECISIONS),
    ("fleet/decide/gates.py", "import time", DECISIONS),
    ("node/checks/__init__.py", "import subprocess", DECISIONS),
    ("node/run/__init__.py", "import asyncio", DECISIONS),
    ("fleet/controllers/__init__.py", "import subprocess", "Controllers know no vendor library"),
    ("node/agent/serve.py", "import nodeupgrade.node.journal.run_directories", PORTS),
    ("controlplane/settings.py", "import nodeupgrade.cluster.client.client", PORTS),
    ("cli/console.py", "import nodeupgrade.cluster.client.client", PORTS),
    ("fleet/__init__.py", "import kopf", "kopf stays in the control plane"),
    ("node/host/systemd/__init__.py", "import grpc", "gRPC stays where it is spoken"),
    ("node/shield/records.py", "import asyncio", "The executor raises the shield without what its process needs"),
    ("controlplane/__init__.py", "import kubernetes", "The Kubernetes client stays in its adapter"),
    ("node/agent/__init__.py", "import tenacity", "tenacity stays in the adapters"),
    ("fleet/health/probe.py", "import cel", CEL),
    ("controlplane/__init__.py", "import prometheus_client", "Metrics stay in the adapter that serves them"),
]
"""A module, an import that is added to it, and the contract that must notice it."""


def test_each_contract_notices(package: Path) -> None:
    (package / "stray.py").touch()
    (package / "findings/circle.py").write_text("from nodeupgrade.findings import circle_back\n")
    (package / "findings/circle_back.py").write_text("import nodeupgrade.findings.circle\n")
    for module, line, _ in BREACHES:
        with (package / module).open("a") as file:
            file.write(f"\n{line}\n")

    said = broken(package)

    assert said.keys() == {contract for _, _, contract in BREACHES} | {CYCLES}
    for module, line, contract in BREACHES:
        importer = f"nodeupgrade/{module}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert f" {importer} -> {line.removeprefix('import ')} (l." in said[contract]
    assert "- nodeupgrade.stray\n" in said[SLICES]
    for room in ("findings", "fleet", "node"):
        assert f"No cycles are allowed in nodeupgrade.{room}.\n" in said[CYCLES]
