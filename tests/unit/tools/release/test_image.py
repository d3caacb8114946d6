"""Tests that a release requires a base image pinned by its digest."""

from pathlib import Path

import pytest

from tools.release import image

PINNED = f"registry.example/python:3.13-slim@sha256:{'a' * 64}"


@pytest.mark.parametrize("name", [PINNED, "scratch", f"localhost:5000/a@sha256:{'0' * 64}"])
def test_a_base_image_with_its_digest_is_taken(name: str) -> None:
    assert image.base(name) == name


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
