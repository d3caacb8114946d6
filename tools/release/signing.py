"""Checksums of the files of a release, and their signature."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKSUMS = "SHA256SUMS"
KEY = "COSIGN_KEY"
_SECONDS = 300


def write_checksums(directory: Path) -> Path:
    """Write SHA256SUMS over all files of the directory, as `sha256sum --check` reads it, and return its path."""
    target = directory / CHECKSUMS
    files = sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith(CHECKSUMS))
    lines = (f"{_digest(path)}  {path.name}\n" for path in files)
    target.write_text("".join(lines), encoding="utf-8")
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sign(checksums: Path) -> str:
    """Sign the checksums with cosign and return the signature's file name; empty if no key is given.

    ``python3 -m tools.release.signing dist`` does only this: where a key is, nothing has to be built.

    The key is a file or a URL of a key store, named by the environment variable COSIGN_KEY.

    Raises:
        RuntimeError: a key is given, but there is no cosign, or it fails.
    """
    signature = checksums.with_name(f"{CHECKSUMS}.sig")
    signature.unlink(missing_ok=True)
    if not (key := os.environ.get(KEY)):
        return ""
    if shutil.which("cosign") is None:
        raise RuntimeError(f"cannot sign: {KEY} is set, but there is no cosign on PATH")
    argv = ["cosign", "sign-blob", "--yes", f"--key={key}", f"--output-signature={signature}", str(checksums)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode or not signature.is_file():
        raise RuntimeError(f"cannot sign: {done.stderr.strip()}")
    return signature.name


def main(directory: str) -> int:
    """Sign the checksums of a release that was made elsewhere."""
    checksums = Path(directory) / CHECKSUMS
    made = checksums.read_bytes()
    if write_checksums(checksums.parent).read_bytes() != made:
        print(f"error: {CHECKSUMS} is not that of the files in {directory}", file=sys.stderr)
        return 1
    try:
        signature = sign(checksums)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"made     {signature}" if signature else f"error: {KEY} is not set")
    return 0 if signature else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
