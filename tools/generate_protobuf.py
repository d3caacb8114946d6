"""Generate the committed protobuf modules from our minimal ``.proto`` files.

Run ``python tools/generate_protobuf.py`` after changing a ``.proto`` file; ``--check`` only reports whether the
committed modules are those that the installed grpcio-tools generates.
"""

import argparse
import importlib.resources
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

RUNTIMES = Path(__file__).resolve().parent.parent / "operator" / "nodeupgrade" / "node" / "runtimes"
SOURCES = (RUNTIMES / "cri" / "_pb" / "runtime.proto", RUNTIMES / "containerd" / "_pb" / "containerd.proto")


def generate(source: Path, target: Path) -> None:
    """Write the module and its type stub for one ``.proto`` file into ``target``."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"-I{source.parent}",
            f"-I{well_known}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            str(source),
        ]
    )
    if status != 0:
        sys.exit(f"cannot generate from {source.name}: protoc ended with status {status}")


def outdated(source: Path) -> list[str]:
    """Return the names of committed files that are out of date."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(source, Path(scratch))
        return [
            fresh.name
            for fresh in sorted(Path(scratch).iterdir())
            if not (committed := source.parent / fresh.name).exists() or committed.read_bytes() != fresh.read_bytes()
        ]


def main() -> None:
    """Write the modules, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when something is outdated")
    if parser.parse_args().check:
        stale = [name for source in SOURCES for name in outdated(source)]
        if stale:
            sys.exit(f"outdated: {', '.join(stale)}; run python tools/generate_protobuf.py")
        return
    for source in SOURCES:
        generate(source, source.parent)


if __name__ == "__main__":
    main()
