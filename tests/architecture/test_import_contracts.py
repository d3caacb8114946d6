"""The contracts of pyproject.toml hold, and each of them would notice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

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
        ("controlplane/__init__.py", "import nodeupgrade.cli", "Layers point downwards"),
        ("stray.py", '"""A module that no layer names."""', "Layers point downwards"),
        ("domain/__init__.py", "import os", "The core does no I/O"),
        ("kubelethash/__init__.py", "import time", "The core does no I/O"),
        ("engine/__init__.py", "import subprocess", "The engine knows no vendor library"),
        ("node/agent/serve.py", "from nodeupgrade.adapters.journal import RunStore", "Only wiring builds adapters"),
        ("controlplane/settings.py", "import nodeupgrade.adapters.kube", "Only wiring builds adapters"),
        ("cli/console.py", "from nodeupgrade.adapters.kube import KubeClient", "Only wiring builds adapters"),
        ("adapters/__init__.py", "import kopf", "kopf stays in the control plane"),
        ("adapters/systemd/__init__.py", "import grpc", "gRPC stays in the adapters that speak it"),
        (
            "node/shield/socket_renaming.py",
            "import asyncio",
            "The executor raises the shield without what its process needs",
        ),
        ("controlplane/__init__.py", "import kubernetes", "The Kubernetes client stays in its adapter"),
        ("agent/__init__.py", "import tenacity", "tenacity stays in the adapters"),
        ("fleet/health/probe.py", "import cel", CEL),
        ("controlplane/__init__.py", "import prometheus_client", "Metrics stay in the adapter that serves them"),
        ("domain/__init__.py", "import nodeupgrade.api.reasons", None),
        ("domain/circle.py", "from nodeupgrade.domain import circle_back", "No cycles anywhere"),
    ],
)
def test_a_contract_notices(package: Path, module: str, line: str, contract: str | None) -> None:
    (package / "domain/circle_back.py").write_text("import nodeupgrade.domain.circle\n")
    with (package / module).open("a") as file:
        file.write(f"\n{line}\n")

    assert broken(package) == ([] if contract is None else [contract])
