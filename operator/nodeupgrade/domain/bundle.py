"""The bundle: a Python that runs on any node, whatever the node itself has installed.

A bundle is one directory holding an interpreter, its standard library, the few packages that the programs on the
host need, every shared library of all these and the dynamic loader that goes with them. Nothing of the host is used
but its kernel. It is built with the image, staged on the node, and runs there; all three agree here on what is where.

    bundle.json              what it is, and the digest of everything else
    bin/python3              the interpreter; found again by itself as the prefix two levels up
    lib/ld.so                the dynamic loader
    lib/*.so*                shared libraries
    lib/pythonX.Y/           standard library, packages and nodeupgrade itself
"""

from dataclasses import dataclass
from pathlib import PurePath

DEFAULT_LOCATION = PurePath("/opt/nodeupgrade/bundle")
"""Where the image keeps its bundle."""

MANIFEST = "bundle.json"
LOADER = PurePath("lib/ld.so")
LIBRARIES = PurePath("lib")
INTERPRETER = PurePath("bin/python3")

EXECUTOR = "nodeupgrade.agent.host.executor"
LEASE_KEEPER = "nodeupgrade.agent.host.lease_keeper"
COPY = "nodeupgrade.agent.copy"
"""The modules that are run from a bundle."""

LEFT_OUT = frozenset({"cli", "controlplane", "simulation"})
"""Packages of nodeupgrade that none of them needs, and that a node is therefore not given."""

_FLAGS = ("-I", "-S", "-B", "-X", "utf8")
"""Isolated from the environment, no `site`, no writing, UTF-8 whatever the locale."""


class BundleError(Exception):
    """A bundle cannot be built, is incomplete or is not what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a bundle says about itself.

    Attributes:
        version: version of nodeupgrade inside.
        python: version of the interpreter, such as `3.11.2`.
        machine: hardware name as in `uname -m`.
        digest: `sha256:` and 64 hex digits over names, modes and contents of all other files.
    """

    version: str
    python: str
    machine: str
    digest: str

    @property
    def name(self) -> str:
        """Directory name under which this very content is staged on a node."""
        return f"{self.version}-{self.digest.removeprefix('sha256:')[:16]}"


def command(root: PurePath, module: str, *args: str) -> tuple[str, ...]:
    """Return the argument vector that runs `python -m module args…` from the bundle at `root`.

    `root` is the path as the started process will see it. The loader is told where all libraries are and not
    to look at the host's cache; the interpreter finds its prefix from its own path and ignores the environment,
    so no variable has to be set or cleared.
    """
    loader = (str(root / LOADER), "--inhibit-cache", "--library-path", str(root / LIBRARIES))
    return (*loader, str(root / INTERPRETER), *_FLAGS, "-m", module, *args)


def environment(root: PurePath) -> dict[str, str]:
    """Return a complete environment for `command`: nothing of the caller's needs to be inherited.

    The interpreter itself needs none of it. PATH serves the host's own programs that are started from the
    bundle (such as `systemctl`; they use the host's own loader), the last one tells where the bundle lies.
    """
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "NODEUPGRADE_BUNDLE": str(root),
    }
