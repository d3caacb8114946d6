"""containerd 2, built from its public Go module, in place of Debian's programs; unit and runc are Debian's."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e.lab.binaries import programs
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.runtimes.containerd import Containerd

VERSION = os.environ.get("NODEUPGRADE_LAB_CONTAINERD", "2.4.2")
OLDEST_KUBELET = (1, 26)
"""The first release whose kubelet speaks CRI v1 only; containerd 2 speaks nothing else."""

_CONFIG = f"""\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{nodeimages.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Neither AppArmor profiles nor scores below our own can be set from inside a node.
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/etc/cni/net.d"
"""


class Containerd2(Containerd):
    """Serves the CRI itself, version 1 of it alone."""

    name = "containerd-2"
    version = VERSION

    def check(self, kubelet: Version) -> None:
        """Reject kubelets that speak an older CRI."""
        if kubelet.release < OLDEST_KUBELET:
            raise LabError(f"kubelet {kubelet} does not speak to containerd {VERSION}; use 1.26 or later")

    def complete(self, root: Path) -> None:
        """Replace the programs of Debian's package."""
        for program in programs.containerd(VERSION).iterdir():
            shutil.copy2(program, root / "usr/bin" / program.name)

    def files(self) -> Mapping[str, str]:
        """Return containerd's configuration."""
        return {self.config: _CONFIG}

    def with_root(self, config: str, root: str) -> str:
        """Add the setting, which is not there."""
        return config.replace("version = 3\n", f'version = 3\nroot = "{root}"\n')
