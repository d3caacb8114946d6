"""The files of a node that runs dockerd."""

from pathlib import Path

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable


class Node:
    """A node of files: its processes, and what their networks have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes = ProcessTable(root / "proc")
        self.files = HostFiles(root)

    def process(self, pid: int, name: str, parent: int, *, started: int = 5, opened: tuple[str, ...] = ()) -> None:
        place = self.root / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "net").mkdir()
        (place / "stat").write_text(f"{pid} ({name}) S {parent} {' 0' * 17} {started} 0 0\n")
        (place / "cmdline").write_text(f"/usr/sbin/{name}\0")
        for number, target in enumerate(opened):
            (place / "fd" / str(number)).symlink_to(target)

    def network(self, pid: int, **files: str) -> None:
        for name, text in files.items():
            (self.root / "proc" / str(pid) / "net" / name).write_text(text)
