"""Tests the images that the lab builds."""

import json
import tarfile
from pathlib import Path
from typing import Any

from e2e.lab.nodes import nodeimages


def started_by(archive: Path) -> dict[str, Any]:
    """Return what starts a container of an image."""
    with tarfile.open(archive) as files:

        def read(name: str) -> Any:
            stream = files.extractfile(name)
            assert stream is not None
            return json.load(stream)

        config: dict[str, Any] = read(read("manifest.json")[0]["Config"])["config"]
    return config


def test_arguments_of_a_pod_go_to_the_entrypoint_of_its_image(tmp_path: Path) -> None:
    """`kubeadm upgrade` starts a pause container with an argument only."""
    nodeimages.write_archive(tmp_path / "pause.tar", "pause:1", b"", [], ["/bin/pause"])
    nodeimages.write_archive(tmp_path / "other.tar", "other:1", b"", ["sh"])
    assert started_by(tmp_path / "pause.tar")["Entrypoint"] == ["/bin/pause"]
    assert "Entrypoint" not in started_by(tmp_path / "other.tar")
