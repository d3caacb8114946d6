"""Tests the release workflow, and the make targets that a release uses."""

import subprocess
from typing import Any

import yaml

from tools.wheels import CHECKOUT

WORKFLOW: dict[str, Any] = yaml.safe_load((CHECKOUT / ".github/workflows/release.yaml").read_text(encoding="utf-8"))


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


def test_an_image_of_ones_own_takes_another_base() -> None:
    argv = ["make", "--dry-run", "--silent", "images", "CONTAINER_TOOL=podman", "BASE=registry.example/python:3"]
    said = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (
        "podman build --tag nodeupgrade:dev --build-arg=BASE=registry.example/python:3 --file Containerfile ." in said
    )
