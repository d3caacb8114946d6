"""The images that specs run, by the names of the release: one root with busybox and agnhost, started differently."""

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.conformance.programs import Programs
from e2e.lab.nodes import nodeimages
from e2e.lab.process import run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    command: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    user: str = ""


_AGNHOST = _Start(entrypoint=("/agnhost",), command=("pause",))
_STARTS = {
    "agnhost": _AGNHOST,
    "pause": _AGNHOST,
    "busybox": _Start(command=("sh",)),
    "nonroot": _Start(command=("sh",), user="1234"),
    "nonewprivs": _Start(command=("nnp",)),
}
"""How the images that can be made are started, by the last part of their names."""

_PUBLIC = "registry.k8s.io/"
_CURL = b'#!/bin/sh\n# Specs give the URL last.\nfor last; do :; done\nexec wget -q -O - "$last"\n'
_USERS = b"root:x:0:0:root:/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
_GROUPS = b"root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"


def write_archives(names: Iterable[str], programs: Programs, root: Path, directory: Path) -> Iterator[Path]:
    """Write those of the images that can be made, and yield their archives.

    Args:
        names: all that the specs run, such as ``registry.k8s.io/pause:3.10``.
        programs: of the release.
        root: the Debian root of the lab, whose busybox is used.
        directory: where to write.
    """
    layer = _layer(programs, root, directory)
    for name in names:
        start = _STARTS.get(short := name.rpartition("/")[2].partition(":")[0])
        if start is not None and name.startswith(_PUBLIC):  # of others, specs expect that they cannot be had
            archive = directory / f"{short}.tar"
            nodeimages.write_archive(archive, name, layer, start.command, start.entrypoint, user=start.user)
            yield archive


def _layer(programs: Programs, root: Path, directory: Path) -> bytes:
    certificate, key = directory / "localhost.crt", directory / "localhost.key"
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=localhost")
    run(*request, "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate)
    files = {
        "agnhost": programs.agnhost.read_bytes(),
        "localhost.crt": certificate.read_bytes(),
        "localhost.key": key.read_bytes(),
        "bin/curl": _CURL,
    }
    buffer = io.BytesIO(nodeimages.busybox_layer(root, files))
    with tarfile.open(fileobj=buffer, mode="a") as layer:
        _add(layer, "bin/nnp", programs.nonewprivs.read_bytes(), 0o4755)
        _add(layer, "etc/passwd", _USERS, 0o644)
        _add(layer, "etc/group", _GROUPS, 0o644)
        link = tarfile.TarInfo("agnhost-2")  # tells programs apart that were started under another name
        link.type, link.linkname = tarfile.SYMTYPE, "agnhost"
        layer.addfile(link)
    return buffer.getvalue()


def _add(layer: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    layer.addfile(entry, io.BytesIO(content))
