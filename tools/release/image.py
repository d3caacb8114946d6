"""Builds the image for several platforms into one OCI archive; nothing is pushed."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tools.release.manifests import CHECKOUT

_SECONDS = 3600
_PINNED = re.compile(r"[\w.:/-]+@sha256:[0-9a-f]{64}")
EMPTY = "scratch"
"""The only image that is known by its name."""


class NoImageError(Exception):
    """The image cannot be built here; the message says why."""


def build(archive: Path, *, tool: str, name: str, platforms: str) -> str:
    """Build the image from wheels/ and return the digest of its index.

    Args:
        archive: the file to write.
        tool: docker (with buildx), podman or buildah. Platforms other than this machine's need emulation (binfmt).
        name: of the image, with its tag.
        platforms: such as `linux/amd64,linux/arm64`.

    Raises:
        NoImageError: the base image has no digest, or there is no such tool, or it fails.
    """
    from_image = base(os.environ.get("BASE", ""))
    if shutil.which(tool) is None:
        raise NoImageError(f"there is no {tool}; install it, or set CONTAINER_TOOL to docker, podman or buildah")
    archive.unlink(missing_ok=True)
    arguments = [f"--platform={platforms}", f"--file={CHECKOUT / 'Containerfile'}", f"--build-arg=BASE={from_image}"]
    if tool.endswith("docker"):
        _run(tool, "buildx", "build", *arguments, f"--tag={name}", f"--output=type=oci,dest={archive}", str(CHECKOUT))
    else:
        _run(tool, "manifest", "rm", name, check=False)
        _run(tool, "build", *arguments, f"--manifest={name}", str(CHECKOUT))
        _run(tool, "manifest", "push", "--all", name, f"oci-archive:{archive}")
    return index_digest(archive)


def index_digest(archive: Path) -> str:
    """Return the digest by which the image in an OCI archive is pulled once it is pushed."""
    with tarfile.open(archive) as packed:
        entry = next(member for member in packed if member.name.removeprefix("./") == "index.json")
        content = packed.extractfile(entry)
        if content is None:
            raise NoImageError(f"{archive.name} has no index")
        (manifest,) = json.load(content)["manifests"]
        return str(manifest["digest"])


def base(name: str) -> str:
    """Return the base image's name if it says what is in it: a tag may lead to another image tomorrow.

    Raises:
        NoImageError: it has no digest.
    """
    if name == EMPTY or _PINNED.fullmatch(name):
        return name
    given = f"{name!r} has none" if name else "it is not set"
    raise NoImageError(f"a release needs BASE, the base image with its digest (…@sha256:…), and {given}")


def _run(*argv: str, check: bool = True) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if check and done.returncode:
        raise NoImageError(f"{' '.join(argv[:3])} failed:\n{done.stderr[-2000:]}")
