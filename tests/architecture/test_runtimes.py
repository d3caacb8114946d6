"""What a container runtime is stands behind its port: another one is a package, and a line in each of a few files."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from nodeupgrade.api.runtimes import BUNDLES, SupportedRuntime, supported_runtimes
from nodeupgrade.errors import Refused
from nodeupgrade.node.runtimes.supported import RUNTIMES, runtime_named
from tests.contract.node.conftest import REAL_RUNTIMES

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "operator" / "nodeupgrade"
ITS_WORDS = re.compile(r"containerd|shim", re.IGNORECASE)
CORE = (
    "fleet", "cluster", "findings", "node/agent", "node/checks", "node/examination", "node/executor", "node/facts",
    "node/journal", "node/plan", "node/rescue", "node/run", "node/shield", "node/task_status", "node/verification",
)  # fmt: skip

PACKAGES = ("containerd", "docker")
"""What is beneath Docker is containerd, too."""

LINES = {"api/runtimes.py", "node/runtimes/supported.py"}
"""Where each runtime has its line."""
OF_OTHERS = {
    "node/runtimes/cri/client.py",
    "api/reasons.py",
    "api/values.py",
    "node/checks/vendor_commands.py",
    "kubelet/",
}
"""Where the word is not about what this project does with containerd: what the CRI is in its versions, a reason's own
name, the form of an API field, lines in units of distributions, flags and defaults of kubelets."""


def naming(package: Path, parts: Iterable[str] = ("",)) -> set[str]:
    """Modules below some parts of the package in which a word of containerd's stands, be it in a comment."""
    paths = (path for part in parts for path in (package / part).rglob("*.py"))
    return {str(path.relative_to(package)) for path in paths if ITS_WORDS.search(path.read_text(encoding="utf-8"))}


def test_no_word_of_a_runtime_is_in_the_core() -> None:
    assert {name for name in naming(PACKAGE, CORE) if name not in OF_OTHERS} == set()


@pytest.mark.parametrize(
    "line", ["import nodeupgrade.node.runtimes.containerd", "unit = 'Containerd.service'", "# a shim"]
)
def test_a_word_in_the_core_would_be_noticed(tmp_path: Path, line: str) -> None:
    (tmp_path / "node/run").mkdir(parents=True)
    (tmp_path / "node/run/module.py").write_text(f"{line}\n")

    assert naming(tmp_path, CORE) == {"node/run/module.py"}


def test_outside_of_its_package_a_runtime_has_two_lines() -> None:
    packages = tuple(f"node/runtimes/{name}/" for name in PACKAGES)
    named = {name for name in naming(PACKAGE) if not name.startswith(packages)}

    assert {name for name in named if not name.startswith(tuple(OF_OTHERS))} == LINES


def test_every_supported_runtime_has_an_adapter_and_is_in_the_contract_suite() -> None:
    kinds = [adapter.kind.name for adapter in RUNTIMES]

    assert kinds == list(SupportedRuntime)
    assert list(BUNDLES) == kinds
    assert list(SupportedRuntime) == REAL_RUNTIMES
    assert [runtime_named(name) for name in SupportedRuntime] == list(RUNTIMES)


def test_the_document_names_the_files_that_another_runtime_touches() -> None:
    text = (CHECKOUT / "docs" / "adding-a-runtime.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+/[^`]*)` \|", text, re.MULTILINE)

    assert {f"operator/nodeupgrade/{line}" for line in LINES} <= set(named)
    assert len(named) <= 5, "its own package, and at most four more"
    assert [path for path in named if "NAME" not in path and not (CHECKOUT / path).exists()] == []


@pytest.mark.parametrize("name", ["", "rkt", "containerd-like"])
def test_a_runtime_without_an_adapter_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refused, match=rf"{name or 'unknown'}; only {supported_runtimes()}"):
        runtime_named(name)
