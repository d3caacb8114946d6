"""Lists what is in the image, as CycloneDX: our package, and every locked one with its licence and digest."""

import email
import hashlib
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from email.message import Message
from pathlib import Path

from nodeupgrade.api.json import Json


def bill(wheels: Iterable[Path], *, version: str, timestamp: str) -> str:
    """Return the bill of materials.

    Args:
        wheels: the wheels of all platforms; those of one package are one component.
        version: our own.
        timestamp: when the release was made (RFC 3339).
    """
    by_package: dict[tuple[str, str], list[Path]] = defaultdict(list)
    licences: dict[tuple[str, str], Json] = {}
    for wheel in sorted(wheels):
        metadata = _metadata(wheel)
        key = (_normal(metadata["Name"]), metadata["Version"])
        by_package[key].append(wheel)
        licences[key] = _licence(metadata)
    components = [_component(*key, files, licences[key]) for key, files in sorted(by_package.items())]
    main = {"type": "application", "name": "nodeupgrade", "version": version, "bom-ref": "nodeupgrade"}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": main},
        "components": components,
        "dependencies": [{"ref": "nodeupgrade", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _component(name: str, version: str, files: list[Path], licence: Json) -> Json:
    purl = f"pkg:pypi/{name}@{version}"
    distributed = [
        {
            "type": "distribution",
            "url": f"https://pypi.org/project/{name}/{version}/",
            "comment": file.name,
            "hashes": _hashes(file),
        }
        for file in files
    ]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        **licence,
        "externalReferences": distributed,
    }


def _hashes(file: Path) -> list[Json]:
    with file.open("rb") as stream:
        return [{"alg": "SHA-256", "content": hashlib.file_digest(stream, "sha256").hexdigest()}]


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
        return email.message_from_bytes(archive.read(name))


def _licence(metadata: Message) -> Json:
    """Return the licence as the package tells it: an SPDX expression, or whatever words it uses."""
    if expression := metadata.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
    told = [each.rpartition(" :: ")[2] for each in classifiers] or [
        str(metadata.get("License") or "").partition("\n")[0]
    ]
    return {"licenses": [{"license": {"name": name}} for name in told if name]}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
