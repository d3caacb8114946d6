"""The two images that a node has from the start, built from Debian's static busybox, without a registry."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.lab.process import run

PAUSE = "nodeupgrade.test/pause:1"
BUSYBOX = "nodeupgrade.test/busybox:1"
DIRECTORY = Path("/usr/share/nodeupgrade-lab/images")  # in a node

_MEDIA = "application/vnd.oci.image"


def write_archives(root: Path, directory: Path) -> None:
    """Write both images as archives into ``directory``, with the busybox of the Debian ``root``."""
    directory.mkdir(parents=True)
    binary = (root / "bin/busybox").read_bytes()
    # A sandbox only has to stay: PID 1 ignores signals that it does not handle, and the runtime ends it with SIGKILL.
    write_archive(directory / "pause.tar", PAUSE, _layer(binary, [], {}), ["/bin/busybox", "sleep", "2147483647"])
    write_archive(directory / "busybox.tar", BUSYBOX, busybox_layer(root, {}), ["sh"])


def busybox_layer(root: Path, programs: Mapping[str, bytes]) -> bytes:
    """Return the layer of a root with the busybox of the Debian ``root`` under all its names, and more programs."""
    applets = run(root / "bin/busybox", "--list").stdout.split()
    return _layer((root / "bin/busybox").read_bytes(), applets, programs)


def write_archive(
    file: Path, name: str, layer: bytes, command: Sequence[str], entrypoint: Sequence[str] = (), *, user: str = ""
) -> None:
    """Write an image of one uncompressed ``layer`` as an OCI archive that is a Docker archive, too.

    The same input gives the same image digest.
    """
    started = {"Cmd": command, **({"Entrypoint": entrypoint} if entrypoint else {}), **({"User": user} if user else {})}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    config = _json({
        "architecture": machine, "os": "linux", "config": {**started, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    })  # fmt: skip
    manifest = _json({
        "schemaVersion": 2, "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _descriptor(config, "config.v1+json"), "layers": [_descriptor(layer, "layer.v1.tar")],
    })  # fmt: skip
    named = {**_descriptor(manifest, "manifest.v1+json"), "annotations": {"io.containerd.image.name": name}}
    with tarfile.open(file, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        _add(archive, "manifest.json", docker_manifest(json.loads(manifest), name))
        for blob in (config, manifest, layer):
            _add(archive, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)


def docker_manifest(manifest: Mapping[str, Any], name: str) -> bytes:
    """Return the file that makes an OCI archive of one image a Docker archive, which Docker before 25 needs."""
    config, *layers = (
        f"blobs/sha256/{blob['digest'].removeprefix('sha256:')}" for blob in (manifest["config"], *manifest["layers"])
    )
    return _json([{"Config": config, "RepoTags": [name], "Layers": layers}])


def _layer(busybox: bytes, applets: list[str], programs: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name, program in {"bin/busybox": busybox, **programs}.items():
            _add(layer, name, program, mode=0o755)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                layer.addfile(link)
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
        _add(layer, "www/index.html", b"ok\n")
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        layer.addfile(temporary)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _descriptor(blob: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
