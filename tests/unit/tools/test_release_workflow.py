"""What a release is made of is named exactly, and what builds it has no key."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.release import image, signing
from tools.wheels import CHECKOUT

WORKFLOW: dict[str, Any] = yaml.safe_load((CHECKOUT / ".github/workflows/release.yaml").read_text(encoding="utf-8"))
PINNED = f"registry.example/python:3.13-slim@sha256:{'a' * 64}"


def test_no_step_runs_code_that_a_tag_may_lead_elsewhere() -> None:
    """An action would have to be named by its commit."""
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    assert [step["uses"] for step in steps if "uses" in step] == []


def test_the_key_is_where_nothing_is_built() -> None:
    """Neither in the environment of the workflow or of a job, nor in a job that builds."""
    keys = {name: [at for at, step in enumerate(job["steps"]) if "secrets." in str(step)] for name, job in jobs()}
    outside = [{key: value for key, value in job.items() if key != "steps"} for _, job in jobs()]
    assert keys["build"] == []
    assert [str(WORKFLOW["jobs"]["publish"]["steps"][at]["run"]) for at in keys["publish"]] == ["make sign publish"]
    assert "secrets." not in str(outside)
    assert "secrets." not in str(WORKFLOW["env"])
    assert WORKFLOW["permissions"] == {}
    built = [step["run"] for step in WORKFLOW["jobs"]["publish"]["steps"]]
    assert not [run for run in built if "make release" in run or "pip" in run]


def jobs() -> list[tuple[str, Any]]:
    return list(WORKFLOW["jobs"].items())


def notes(*settings: str) -> "subprocess.CompletedProcess[str]":
    argv = ["make", "--silent", "notes", *settings]
    return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)


def test_the_notes_of_a_release_are_the_section_of_its_version() -> None:
    """And there is one for the version that is built."""
    sections = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for section in sections:
        version, _, text = section.partition("\n")
        assert notes(f"TAG={version}").stdout.strip() == text.strip()
    assert notes().returncode == 0
    assert notes("TAG=0.0.0").returncode != 0
    links = notes("SOURCE=https://example.com/v1").stdout
    assert "](https://example.com/v1/docs/" in links
    assert "](docs/" not in links


@pytest.mark.parametrize("name", [PINNED, "scratch", f"localhost:5000/a@sha256:{'0' * 64}"])
def test_a_base_image_with_its_digest_is_taken(name: str) -> None:
    assert image.base(name) == name


def test_an_image_of_ones_own_takes_another_base() -> None:
    argv = ["make", "--dry-run", "--silent", "images", "CONTAINER_TOOL=podman", "BASE=registry.example/python:3"]
    said = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (
        "podman build --tag nodeupgrade:dev --build-arg=BASE=registry.example/python:3 --file Containerfile ." in said
    )


@pytest.mark.parametrize(
    "name", ["", "python:3.13-slim", "python@sha256:abc", f"{PINNED} --build-arg=x", f"{PINNED}\n", PINNED.upper()]
)
def test_a_tag_is_refused(name: str) -> None:
    with pytest.raises(image.NoImageError, match="with its digest"):
        image.base(name)


def test_a_release_without_a_pinned_base_image_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE", "docker.io/library/python:3.13-slim-bookworm")
    with pytest.raises(image.NoImageError, match="with its digest"):
        image.build(tmp_path / "image.tar", tool="true", name="x:1", platforms="linux/amd64")


def test_signing_alone_signs_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    release, programs, signed = tmp_path / "dist", tmp_path / "bin", tmp_path / "signed"
    for directory in release, programs:
        directory.mkdir()
    (release / "install.yaml").write_text("a manifest", encoding="utf-8")
    signing.write_checksums(release)
    cosign = programs / "cosign"
    signature = 'for each; do case "$each" in --output-signature=*) echo s > "${each#*=}";; esac; done'
    cosign.write_text(f'#!/bin/sh\necho "$@" > "$SIGNED"\n{signature}\n')
    cosign.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", signing.KEY: "env://K", "SIGNED": str(signed)}
    argv = [sys.executable, "-m", "tools.release.signing", str(release)]

    def run() -> int:
        done = subprocess.run(argv, cwd=CHECKOUT, env=environment, capture_output=True, check=False, timeout=60)
        return done.returncode

    assert run() == 0
    assert (release / "SHA256SUMS.sig").is_file()
    signed.unlink()
    (release / "install.yaml").write_text("another one", encoding="utf-8")
    assert run() == 1
    assert not signed.exists()
