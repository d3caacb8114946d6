"""The address of a pod, from the kernel's view of its network."""

import re

from nodeupgrade.node.host.processes.processes import ProcessTable

LOCAL = re.compile(r"\|-- (\d+(?:\.\d+){3})\n +/32 host LOCAL")
LOOPBACK = "127."
GLOBAL_SCOPE = "00"


def pod_address(processes: ProcessTable, pid: int) -> str:
    """Return the first address of a process's network other than the loopback; empty if it has none."""
    trie = processes.text(pid, "net/fib_trie")
    found = sorted({each for each in LOCAL.findall(trie) if not each.startswith(LOOPBACK)})
    return found[0] if found else _sixth(processes, pid)


def _sixth(processes: ProcessTable, pid: int) -> str:
    """Return the first IPv6 address with global scope, written as the kernel does: 32 digits."""
    lines = (line.split() for line in processes.text(pid, "net/if_inet6").splitlines())
    found = sorted(fields[0] for fields in lines if len(fields) > 3 and fields[3] == GLOBAL_SCOPE)
    return found[0] if found else ""
