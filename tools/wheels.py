"""Collect everything that the image installs: the locked wheels, and our own.

    python -m tools.wheels --python 3.13 wheels/

The image build itself then needs no network. Hashes are checked here and again when the image installs them.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LOCK = CHECKOUT / "requirements.lock"
COMMAND_LINE_LOCK = CHECKOUT / "requirements-cli.lock"
"""The part of it that the command line needs."""
DEPENDENCIES = "dependencies"
"""Directory of the locked wheels below that of our own, as the Containerfile expects."""

_GLIBC_OF_WHEELS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
"""Their order makes no difference to pip; none needs more than the glibc 2.36 of Debian 12."""

_TIMEOUT_SECONDS = 900


def dependencies(destination: Path, *, python: str, machine: str, lock: Path = LOCK) -> None:
    """Download the wheels of a lock file for one Python (`3.13`) and machine (`x86_64`)."""
    platforms = [f"--platform={glibc}_{machine}" for glibc in _GLIBC_OF_WHEELS]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *platforms]
    _pip("download", "--require-hashes", f"--requirement={lock}", f"--dest={destination}", *target)


def our_own(destination: Path) -> None:
    """Build the wheel of this checkout, with the build tools of the current environment."""
    _pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={destination}", str(CHECKOUT))


def _pip(*arguments: str) -> None:
    # A fixed timestamp makes the build reproducible.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    argv = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    subprocess.run(argv, check=True, env=environment, timeout=_TIMEOUT_SECONDS)


def main(argv: Sequence[str] | None = None) -> None:
    """Collect both kinds: our wheel in the directory, its dependencies in a subdirectory."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="version of the image's Python, such as 3.13")
    parser.add_argument(
        "--machine", action="append", help="a machine of the image, such as aarch64 (default: this one; repeatable)"
    )
    parser.add_argument("destination", type=Path)
    options = parser.parse_args(argv)
    locked = options.destination / DEPENDENCIES
    locked.mkdir(parents=True, exist_ok=True)
    # Wheels of several machines lie side by side: pip takes those that fit.
    for machine in options.machine or [platform.machine()]:
        dependencies(locked, python=options.python, machine=machine)
    our_own(options.destination)


if __name__ == "__main__":
    main()
