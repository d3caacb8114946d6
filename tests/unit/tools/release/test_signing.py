"""Tests that only unchanged artifacts are signed."""

import os
import subprocess
import sys
from pathlib import Path

from tools.release import signing
from tools.wheels import CHECKOUT


def test_signing_alone_signs_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    release, programs, signed = tmp_path / "dist", tmp_path / "bin", tmp_path / "signed"
    for directory in release, programs:
        directory.mkdir()
    (release / "install.yaml").write_text("a manifest", encoding="utf-8")
    signing.write_checksums(release)
    cosign = programs / "cosign"
    signature = 'for each; do case "$each" in --output-signature=*) echo s > "${each#*=}";; esac; done'
    cosign.write_text(f'#!/bin/sh\necho "$@" > "$SIGNED"\n{signature}\n')
    cosign.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", signing.KEY: "env://K", "SIGNED": str(signed)}
    argv = [sys.executable, "-m", "tools.release.signing", str(release)]

    def run() -> int:
        done = subprocess.run(argv, cwd=CHECKOUT, env=environment, capture_output=True, check=False, timeout=60)
        return done.returncode

    assert run() == 0
    assert (release / "SHA256SUMS.sig").is_file()
    signed.unlink()
    (release / "install.yaml").write_text("another one", encoding="utf-8")
    assert run() == 1
    assert not signed.exists()
