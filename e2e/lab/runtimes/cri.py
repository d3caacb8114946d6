"""What nodes have in common whose runtime serves the CRI."""

from e2e.lab.binaries.versions import Version


def cri_flags(version: Version, socket: str) -> list[str]:
    """Return the kubelet's flags for a runtime that serves the CRI."""
    flags = [f"--container-runtime-endpoint=unix://{socket}"]
    if version.release < (1, 24):  # dockershim was the default until then; the flag itself is gone from 1.27 on
        flags.insert(0, "--container-runtime=remote")
    return flags
