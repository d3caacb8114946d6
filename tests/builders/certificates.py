"""Certificates for servers that tests start on loopback."""

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(directory: Path, name: str = "IP:127.0.0.1") -> tuple[Path, Path]:
    """Return a certificate that vouches for itself, and its key: authority, server and client at once.

    Args:
        directory: where both are written.
        name: of the server, as a ``subjectAltName``.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    certificate, key = directory / "tls.crt", directory / "tls.key"
    made: list[str | Path] = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=apiserver", "-addext", f"subjectAltName={name}"]
    made += ["-out", certificate, "-keyout", key]
    subprocess.run(made, check=True, capture_output=True, timeout=600)
    return certificate, key
