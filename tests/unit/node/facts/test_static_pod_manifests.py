"""Tests for finding static Pod manifests."""

from pathlib import Path, PurePosixPath

from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.host.files.host_files import HostFiles


def test_manifests_behind_links_are_found_where_they_are(tmp_path: Path) -> None:
    """A kubelet follows them, reads what is at their end, and passes over what is hidden or no file."""
    root, files = tmp_path, HostFiles(tmp_path)
    folder = "etc/kubernetes/manifests"
    for name in ("srv/elsewhere.yaml", "srv/deep/inner.yaml", f"{folder}/plain.yaml", f"{folder}/.hidden.yaml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / folder / "below").mkdir()
    (root / folder / "below/inner.yaml").write_text("a kubelet does not look here")
    for name, target in {
        "absolute.yaml": "/srv/elsewhere.yaml",
        "relative.yaml": "../../../srv/deep/inner.yaml",
        "nowhere.yaml": "/srv/absent.yaml",
        "directory.yaml": "/srv/deep",
        ".hidden-link.yaml": "/srv/elsewhere.yaml",
        "again.yaml": "plain.yaml",
    }.items():
        (root / folder / name).symlink_to(target)

    found = read_manifests(files, read_layout((f"--pod-manifest-path=/{folder}",)))

    assert found == {
        "/srv/elsewhere.yaml": b"srv/elsewhere.yaml",
        "/srv/deep/inner.yaml": b"srv/deep/inner.yaml",
        f"/{folder}/plain.yaml": f"{folder}/plain.yaml".encode(),
        f"/{folder}/again.yaml": f"{folder}/plain.yaml".encode(),
    }
    for path in (path for path in found if not path.endswith("again.yaml")):
        files.write(PurePosixPath(path), b"changed")
    assert (root / folder / "absolute.yaml").is_symlink()
    assert (root / folder / "absolute.yaml").name in [path.name for path in (root / folder).iterdir()]
