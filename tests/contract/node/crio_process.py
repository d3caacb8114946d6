"""A CRI-O as a process of its own, which can be killed: ``python -m tests.contract.node.crio_process SOCKET GRAPH``.

It serves no container. It ends on the end of its standard input, as a real one does on SIGTERM.
"""

import os
import sys
from pathlib import Path

from nodeupgrade.node.host.processes.processes import ProcessTable
from tests.contract.node.crio_server import CrioServer
from tests.contract.node.crio_storage import Storage
from tests.contract.node.crio_world import GRAPH, RUNS


def main() -> None:
    """Serve until there is no more to read."""
    path, graph = map(Path, sys.argv[1:])
    CrioServer(path, Storage(graph, GRAPH, find=ProcessTable().process), lambda: RUNS.format(root=GRAPH))
    print("serving", flush=True)
    sys.stdin.read()
    path.unlink(missing_ok=True)  # whoever's socket is there by now, as Go does
    os._exit(0)


if __name__ == "__main__":
    main()
