"""A file system of a node that turns read-only after an error of its disk, as ext4 does."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.nodes.node import Node
from e2e.lab.process import run

SIZE = "700M"


@dataclass(frozen=True)
class FailingDisk:
    """An ext4 file system in a file, mounted in a node.

    Attributes:
        node: the node.
        path: the directory of the node that is on it.
        image: the file.
        device: the loop device.
    """

    node: Node
    path: str
    image: Path
    device: Path

    @classmethod
    @contextlib.contextmanager
    def mounted(cls, node: Node, path: str) -> Iterator["FailingDisk"]:
        """Mount one at a directory of the node, with what is in the directory, as long as the context lasts."""
        image, directory = node.disk / "failing-disk", node.disk / path.lstrip("/")
        directory.mkdir(mode=0o700, exist_ok=True)
        run("truncate", f"--size={SIZE}", str(image))
        run("mkfs.ext4", "-q", "-F", "-d", str(directory), str(image))
        device = Path(run("losetup", "--find", "--show", str(image)).stdout.strip())
        try:
            number = device.name.removeprefix("loop")
            node.exec("mknod", f"/dev/{device.name}", "b", "7", number)
            node.exec("mount", "-o", "errors=remount-ro", f"/dev/{device.name}", path)
            yield cls(node, path, image, device)
        finally:
            node.exec("umount", "--lazy", path, check=False)
            node.exec("rm", "-f", f"/dev/{device.name}", check=False)
            run("losetup", "--detach", str(device), check=False)  # which happens once nobody uses it any more
            image.unlink()

    def fail(self) -> None:
        """Have the kernel find an error."""
        Path(f"/sys/fs/ext4/{self.device.name}/trigger_fs_error").write_text("an error of the disk")

    def repair(self) -> None:
        """Check the file system of a node that is off, and put its files into the directory itself."""
        run("e2fsck", "-fy", str(self.device), check=False)
        place, directory = self.node.disk.parent / "repaired", self.node.disk / self.path.lstrip("/")
        place.mkdir()
        run("mount", "-o", "ro", str(self.device), str(place))
        try:
            shutil.rmtree(directory)
            run("cp", "--archive", str(place), str(directory))
        finally:
            run("umount", str(place))
            place.rmdir()
