"""The commands of the pages that need no cluster, run by a shell; kubectl and crictl only print what they are given."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e import pages
from nodeupgrade.api.json import Json
from tests.golden.cli.cluster import FILES, HERE, WORLD, Cluster


class Shell:
    """A shell with its own home directory.

    Args:
        home: that directory, empty.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        programs = pages.CHECKOUT / ".venv/bin"
        self._environment = {
            "PATH": f"{home}/bin:{programs}:{os.environ['PATH']}", "HOME": str(home), "COLUMNS": "200", "NO_COLOR": "1",
        }  # fmt: skip

    def program(self, name: str, script: str) -> None:
        """Put a program on PATH, before all others."""
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def prints(self, name: str, text: str) -> None:
        """Put a program on PATH that prints this, whatever it is asked."""
        (self.home / f"{name}.out").write_text(text)
        self.program(name, f"cat {self.home}/{name}.out")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command line."""
        argv = ["bash", "-o", "pipefail", "-euc", command]
        return subprocess.run(
            argv, cwd=self.home, env=self._environment, capture_output=True, text=True, check=False, timeout=120
        )

    def succeed(self, commands: list[str]) -> None:
        """Run command lines, each of which must succeed."""
        assert commands
        for command in commands:
            done = self.run(command)
            assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def pod(container: Json) -> str:
    """Return what kubectl prints of one pod with one container."""
    metadata = {"name": "web-0", "namespace": "shop", "uid": "1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [body]}, default=str)


def web() -> Json:
    """Return the container `web` of the pods whose hashes are recorded."""
    every = yaml.safe_load_all((HERE / "pods.yaml").read_text(encoding="utf-8"))
    items = [item for body in every if body for item in body.get("items", [body])]
    found = next(item for item in items if item["metadata"]["name"] == "web-0")
    container: Json = next(each for each in found["spec"]["containers"] if each["name"] == "web")
    return container


def shows(shell: Shell, transcripts: list[tuple[str, str]]) -> None:
    """Assert that the commands print what the page shows."""
    assert transcripts
    for command, printed in transcripts:
        lines = shell.run(command).stdout.splitlines()
        assert "".join(f"{line.rstrip()}\n" for line in lines) == printed, command


def test_what_explains_a_restart(shell: Shell) -> None:
    shell.prints("kubectl", pod(web()))
    shows(shell, pages.transcripts("web-0"))


def test_what_a_probe_changes(shell: Shell) -> None:
    shell.prints("kubectl", pod({"name": "web", "image": "web", "readinessProbe": {"grpc": {"port": 1}}}))
    shows(shell, pages.transcripts("grpc-probe"))


def test_hashes(shell: Shell) -> None:
    shell.prints("kubectl", (FILES / "node-pods.yaml").read_text(encoding="utf-8"))
    shell.prints("crictl", (FILES / "inspected.json").read_text(encoding="utf-8"))
    shell.succeed(pages.commands("hashes"))


class TestSignedEvidence:
    @pytest.fixture
    def signed(self, shell: Shell) -> Path:
        printed = Cluster(*WORLD).run("nodeupgrade evidence web-c-1 -o json").partition("\n")[2]
        shell.prints("nodeupgrade", printed)
        assert shell.run("mkdir .ssh && ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519").returncode == 0
        shell.succeed(pages.commands("evidence"))
        return shell.home / "web-c-1.json"

    def test_it_is_valid(self, shell: Shell, signed: Path) -> None:
        assert json.loads(signed.read_text())["digest"].startswith("sha256:")
        shell.succeed(pages.commands("evidence-check"))

    def test_what_was_changed_is_neither_the_same_nor_signed(self, shell: Shell, signed: Path) -> None:
        text = signed.read_text()
        signed.write_text(text.replace("Succeeded", "Failed"))
        assert signed.read_text() != text
        (listing, check) = pages.commands("evidence-check")
        assert shell.run(listing).returncode == 0
        assert shell.run(check).returncode != 0
        assert shell.run(pages.commands("evidence")[1]).returncode == 1

    def test_a_signature_by_somebody_else_is_refused(self, shell: Shell, signed: Path) -> None:
        del signed
        assert shell.run("ssh-keygen -q -t ed25519 -N '' -f other").returncode == 0
        (listing, check) = pages.commands("evidence-check")
        listing = listing.replace("~/.ssh/id_ed25519", shlex.quote(str(shell.home / "other")))
        assert shell.run(listing).returncode == 0
        assert shell.run(check).returncode != 0
