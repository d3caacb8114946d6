"""The contracts of pyproject.toml hold, and each of them would notice."""

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


def broken(package: Path) -> list[str]:
    """Names of the contracts that the package breaks."""
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
    return [line.removesuffix(" BROKEN") for line in verdicts if line.endswith(" BROKEN")]


def test_all_contracts_hold(package: Path) -> None:
    assert broken(package) == []


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("controlplane/__init__.py", "import nodeupgrade.cli", SLICES),
        ("fleet/__init__.py", "import nodeupgrade.node.own_directories", SLICES),
        ("node/__init__.py", "import nodeupgrade.fleet.actions", SLICES),
        ("stray.py", '"""A module that no slice names."""', SLICES),
        ("node/plan/request.py", "import nodeupgrade.node.checks.registry", ("A node's rooms point downwards", CYCLES)),
        ("fleet/setbacks.py", "import nodeupgrade.fleet.decide.waves", ("A fleet's rooms point downwards", CYCLES)),
        ("findings/__init__.py", "import os", DECISIONS),
        ("kubelethash/__init__.py", "import time", DECISIONS),
        ("fleet/decide/gates.py", "import time", DECISIONS),
        ("node/checks/__init__.py", "import subprocess", DECISIONS),
        ("node/run/__init__.py", "import asyncio", DECISIONS),
        ("fleet/controllers/__init__.py", "import subprocess", "Controllers know no vendor library"),
        ("node/agent/serve.py", "import nodeupgrade.node.journal.run_directories", PORTS),
        ("controlplane/settings.py", "import nodeupgrade.cluster.client.client", PORTS),
        ("cli/console.py", "from nodeupgrade.cluster.client.client import KubeClient", PORTS),
        ("fleet/__init__.py", "import kopf", "kopf stays in the control plane"),
        ("node/host/systemd/__init__.py", "import grpc", "gRPC stays where it is spoken"),
        (
            "node/shield/records.py",
            "import asyncio",
            "The executor raises the shield without what its process needs",
        ),
        ("controlplane/__init__.py", "import kubernetes", "The Kubernetes client stays in its adapter"),
        ("node/agent/__init__.py", "import tenacity", "tenacity stays in the adapters"),
        ("fleet/health/probe.py", "import cel", CEL),
        ("controlplane/__init__.py", "import prometheus_client", "Metrics stay in the adapter that serves them"),
        ("findings/__init__.py", "import nodeupgrade.api.reasons", None),
        ("findings/circle.py", "from nodeupgrade.findings import circle_back", CYCLES),
    ],
)
def test_a_contract_notices(package: Path, module: str, line: str, contract: str | tuple[str, ...] | None) -> None:
    (package / "findings/circle_back.py").write_text("import nodeupgrade.findings.circle\n")
    with (package / module).open("a") as file:
        file.write(f"\n{line}\n")

    assert broken(package) == list((contract,) if isinstance(contract, str) else contract or ())
