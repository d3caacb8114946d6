"""Copies files and prints their digests: `python -m nodeupgrade.agent.copy SOURCE DESTINATION [SOURCE DESTINATION …]`.

It runs from the bundle in a container of the artifact's image, which needs nothing but the kubelet: no shell, no
libraries.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from nodeupgrade.api.printable import printable
from nodeupgrade.ports.artifacts import CopyError
from nodeupgrade.wiring.copying import copy


def main(argv: Sequence[str]) -> int:
    """Copy the files named on the command line and print `SHA256  DESTINATION` for each, as `sha256sum` does."""
    if not argv or len(argv) % 2:
        print("usage: python -m nodeupgrade.agent.copy SOURCE DESTINATION [SOURCE DESTINATION ...]", file=sys.stderr)
        return 2
    try:
        paths = [Path(word) for word in argv]
        for source, destination in zip(paths[::2], paths[1::2], strict=True):
            print(printable(f"{copy(source, destination)}  {destination}"))
    except CopyError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
