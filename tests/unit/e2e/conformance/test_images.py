"""Tests which images are made for specs, and what is in them."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.conformance import images
from e2e.conformance.programs import Programs
from e2e.lab.nodes import nodeimages

NAMES = (
    "registry.k8s.io/pause:3.10",
    "registry.k8s.io/x/nonroot:1.4",
    "registry.k8s.io/x/perl:5.26",
    "gcr.io/y/agnhost:2.6",
)


def _files(archive: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Return the files of an archive as they are extracted: of two with a name, the last."""
    with tarfile.open(archive) as opened:
        found = {entry: opened.extractfile(entry) if entry.isfile() else None for entry in opened}
        return {entry.name: (entry, stream.read() if stream else b"") for entry, stream in found.items()}


def _image(archive: Path) -> tuple[dict[str, Any], dict[str, tuple[tarfile.TarInfo, bytes]]]:
    """Return how an image is started, and its files."""
    files = _files(archive)
    (manifest,) = json.loads(files["manifest.json"][1])
    layer = archive.with_suffix(".layer")
    layer.write_bytes(files[manifest["Layers"][0]][1])
    return json.loads(files[manifest["Config"]][1])["config"], _files(layer)


def test_images_are_made_by_the_names_of_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("agnhost", "nonewprivs"):
        (tmp_path / program).write_bytes(program.encode())
    monkeypatch.setattr(nodeimages, "busybox_layer", lambda _, files: nodeimages._layer(b"busybox", [], files))

    made = list(images.write_archives(NAMES, Programs(tmp_path), Path("/"), tmp_path))

    assert [archive.name for archive in made] == ["pause.tar", "nonroot.tar"]
    (pause, files), (nonroot, _) = map(_image, made)
    assert pause == {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "Env": ["PATH=/bin"]}
    assert nonroot["User"] == "1234"
    assert files["agnhost"][1] == b"agnhost"
    assert files["agnhost-2"][0].linkname == "agnhost"
    assert files["bin/nnp"][0].mode == 0o4755
    assert b"user-defined-in-image:x:1000:" in files["etc/passwd"][1]
