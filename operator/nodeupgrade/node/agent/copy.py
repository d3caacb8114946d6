"""Copies files and prints their digests: `python -m nodeupgrade.node.agent.copy SOURCE DESTINATION […]`.

It runs from the bundle in a container of the artifact's image, which needs no shell and no libraries.
"""

import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nodeupgrade.api.printable import printable
from nodeupgrade.node.host.files.opening import CopyError, copy_regular, real_path
from nodeupgrade.sources.parsing import SourceError, parse_path


def main(argv: Sequence[str], root: Path = Path("/")) -> int:
    """Copy the files named on the command line and print `SHA256  DESTINATION` for each, as `sha256sum` does.

    Sources are paths below ``root``, whose links are followed there; none may lead to what the kernel shows as files.
    """
    if not argv or len(argv) % 2:
        print(
            "usage: python -m nodeupgrade.node.agent.copy SOURCE DESTINATION [SOURCE DESTINATION ...]", file=sys.stderr
        )
        return 2
    try:
        for source, destination in zip(argv[::2], argv[1::2], strict=True):
            found = real_path(root, PurePosixPath(source))
            parse_path(str(found))
            print(printable(f"{copy_regular(root, found, Path(destination))}  {destination}"))
    except SourceError as error:
        print(printable(f"error: cannot copy {source}, which leads to {found}: {error}"), file=sys.stderr)
        return 1
    except OSError as error:
        print(printable(f"error: cannot copy {source}: {error.strerror}"), file=sys.stderr)
        return 1
    except CopyError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
