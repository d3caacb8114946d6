"""The bundle: a self-contained Python that runs on any node, whatever the node has installed.

A bundle is one directory with an interpreter, its standard library, the few packages that the programs on the host
need, all their shared libraries and the matching dynamic loader. It uses nothing of the host but its kernel. The image
build creates it, the agent stages it on the node, and the executor runs from it; all three rely on the layout below.

    bundle.json              the manifest, with a digest over all other files
    bin/python3              the interpreter; it finds its prefix two levels up from its own path
    lib/ld.so                the dynamic loader
    lib/*.so*                shared libraries
    lib/pythonX.Y/           standard library, packages and nodeupgrade itself
"""

from dataclasses import dataclass
from pathlib import PurePath

DEFAULT_LOCATION = PurePath("/opt/nodeupgrade/bundle")
"""Path of the bundle in the image."""

EMPTY_FILE = DEFAULT_LOCATION.with_name("nothing")
"""An empty file of the image."""

MANIFEST = "bundle.json"
LOADER = PurePath("lib/ld.so")
LIBRARIES = PurePath("lib")
INTERPRETER = PurePath("bin/python3")

EXECUTOR = "nodeupgrade.node.executor.process"
LEASE_KEEPER = "nodeupgrade.node.lease_keeper.process"
SHIELD = "nodeupgrade.node.shield.process"
COPY = "nodeupgrade.node.agent.copy"
"""The modules that run from a bundle."""

EXCLUDED_PACKAGES = frozenset({"cli", "controlplane", "fleet"})
"""Packages of nodeupgrade that none of these modules needs; they are not part of a bundle."""

_FLAGS = ("-I", "-S", "-B", "-X", "utf8")
"""Isolated from the environment, no `site`, no bytecode files, UTF-8 whatever the locale."""


class BundleError(Exception):
    """A bundle cannot be built, is incomplete or does not match its manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of a bundle, stored in ``bundle.json``."""

    version: str  # version of nodeupgrade in the bundle
    python: str  # version of the interpreter, such as `3.11.2`
    machine: str  # hardware name as in `uname -m`
    digest: str  # `sha256:` and 64 hex digits over names, modes and contents of all other files

    @property
    def name(self) -> str:
        """Directory name under which this content is staged on a node."""
        return f"{self.version}-{self.digest.removeprefix('sha256:')[:16]}"


LOCATION_VARIABLE = "NODEUPGRADE_BUNDLE"
"""Environment variable with the path of the bundle that a process runs from."""


def command(root: PurePath, module: str, *args: str) -> tuple[str, ...]:
    """Return the argument vector that runs `python -m module args…` from the bundle at `root`.

    `root` is the path as the started process sees it. The loader gets the library path on its command line and
    ignores the host's cache; the interpreter derives its prefix from its own path and ignores the environment, so no
    variable has to be set or cleared.
    """
    return (*interpreter(root), "-m", module, *args)


def interpreter(root: PurePath) -> tuple[str, ...]:
    """Return the words that start Python from the bundle at `root`; `sys.executable` alone cannot run there."""
    loader = (str(root / LOADER), "--inhibit-cache", "--library-path", str(root / LIBRARIES))
    return (*loader, str(root / INTERPRETER), *_FLAGS)


def environment(root: PurePath) -> dict[str, str]:
    """Return a complete environment for `command`; nothing needs to be inherited from the caller.

    The interpreter itself needs none of it. `PATH` is for host programs started from the bundle (such as
    `systemctl`, which use the host's loader).
    """
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        LOCATION_VARIABLE: str(root),
    }
