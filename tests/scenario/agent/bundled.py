"""The bundle of an agent in memory."""

from pathlib import Path

from nodeupgrade.agent import bundle


def small_bundle(root: Path) -> Path:
    """As much of a bundle as staging looks at."""
    made = root / "bundle"
    for name in (bundle.LOADER, bundle.INTERPRETER):
        (made / name).parent.mkdir(parents=True)
        (made / name).write_bytes(b"\x7fELF")
        (made / name).chmod(0o755)
    bundle.write_manifest(made, version="1.2.3", python="3.11.2", machine="x86_64")
    return made
