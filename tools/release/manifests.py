"""Renders the manifests with the image of a release: one file for each kind of cluster.

python -m tools.release.manifests --image registry.example/nodeupgrade --tag 0.1.0 dist/
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.documents import documents

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("crds", "manifests", "overlays", "components")
FILES = {
    "install.yaml": "manifests",
    "install-without-readiness-guard.yaml": "overlays/without-readiness-guard",
    "install-without-cel.yaml": "overlays/without-cel",
}
CLEANUP = ("overlays/with-cleanup", "DaemonSet")
_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """The operator's image: by tag or, if there is one, by digest (`sha256:…`)."""

    repository: str
    tag: str
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


def rendered(image: ImageName) -> Iterator[tuple[str, str]]:
    """Yield name and content of every file.

    Raises:
        subprocess.CalledProcessError: kubectl cannot render a kustomization.
    """
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-release-") as directory:
        work = Path(directory)
        for name in FOLDERS:
            shutil.copytree(CHECKOUT / name, work / name)
        _set_image(work / "manifests/kustomization.yaml", image)
        for name, folder in FILES.items():
            yield name, f"# nodeupgrade {image}: kubectl apply --server-side -f {name}\n{_kustomized(work / folder)}"
        folder, kind = CLEANUP
        (cleanup,) = (body for body in documents(_kustomized(work / folder)) if body["kind"] == kind)
        yield (
            "cleanup.yaml",
            "# Before uninstalling: kubectl apply --server-side -f cleanup.yaml\n" + yaml.safe_dump(cleanup),
        )


def _set_image(file: Path, image: ImageName) -> None:
    """Do what `kustomize edit set image` does, which is not part of kubectl."""
    kustomization = yaml.safe_load(file.read_text(encoding="utf-8"))
    named = {"digest": image.digest} if image.digest else {"newTag": image.tag}
    kustomization["images"] = [{"name": "nodeupgrade", "newName": image.repository, **named}]
    file.write_text(yaml.safe_dump(kustomization), encoding="utf-8")


def _kustomized(folder: Path) -> str:
    argv = ["kubectl", "kustomize", str(folder)]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout


def _digest(text: str) -> str:
    if text and re.fullmatch("sha256:[0-9a-f]{64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not sha256: and 64 hexadecimal digits")
    return text


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(prog="python -m tools.release.manifests")
    parser.add_argument("--image", required=True, help="name of the image, without a tag")
    parser.add_argument("--tag", required=True)
    parser.add_argument("--digest", default="", type=_digest, help="sha256:…; if given, it decides, and not the tag")
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    for name, text in rendered(ImageName(repository=options.image, tag=options.tag, digest=options.digest)):
        (options.directory / name).write_text(text, encoding="utf-8")
        print(options.directory / name)


if __name__ == "__main__":
    main()
