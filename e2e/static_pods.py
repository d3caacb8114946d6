"""Static pods of a node: manifests that are edited, and whether an edit counts."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.changes import added
from e2e.cluster import Cluster
from e2e.lab.nodes import nodefiles
from e2e.lab.oracle.snapshot import ContainerInstance
from e2e.lab.process import PATIENCE, wait_until
from e2e.lab.workloads.workload import NAMESPACE
from nodeupgrade.node.plan.manifest_uid import COMMENT

FOLDER = nodefiles.STATIC_PODS
LOOKS_SECONDS = 30.0
"""A kubelet looks at its manifests when one changes, and every 20 s anyway."""
LATER = "came-later"


def pod(name: str) -> str:
    """Return the manifest of a static pod, in YAML."""
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: {NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: nodeupgrade.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, 'trap exit TERM; while :; do sleep 1; done']
---
"""


@dataclass
class StaticPods:
    """The static pods of a node: their manifests, and the containers that its kubelet made of them."""

    cluster: Cluster

    def read(self, path: str) -> str:
        """Return a manifest."""
        return (self.cluster.node.disk / path.lstrip("/")).read_text()

    def write(self, path: str, text: str) -> None:
        """Write beside the folder and move the file there, as an editor may."""
        aside = "/srv/fresh"
        self.cluster.node.write(aside, text)
        self.cluster.node.exec("mv", aside, path)

    def container(self, name: str) -> ContainerInstance | None:
        """Return a pod's running container, if there is one."""
        here = f"{NAMESPACE}/{name}-{self.cluster.node.name}"
        return next((c for c in self.cluster.node.snapshot().running() if c.pod == here), None)

    def environment(self, name: str) -> str:
        """Return what a pod's container was started with; empty as long as none runs."""
        found = self.container(name)
        if found is None:
            return ""
        with contextlib.suppress(OSError):
            return (self.cluster.node.root / f"proc/{found.pid}/environ").read_text()
        return ""

    def replace(self, path: str, name: str, text: str) -> bool:
        """Write a manifest without that variable, and report whether the pod is replaced by one that has it not."""
        self.write(path, text)
        return self.becomes(lambda: "EDITED" not in (self.environment(name) or "EDITED"))

    def edit_counts(self, path: str, name: str, value: str) -> bool:
        """Add a variable to the environment of a pod's container, and report whether it gets there."""
        self._edit(path, value)
        return self.becomes(lambda: f"EDITED={value}" in self.environment(name))

    def edit_is_ignored(self, path: str, name: str, value: str) -> bool:
        """Add a variable to the environment of a pod's container, and report whether it does not get there.

        That the kubelet has seen the edit, a pod shows whose manifest came later; then it gets time for another look.
        """
        self._edit(path, value)
        with added(self.cluster.node, f"{FOLDER}/{LATER}.yaml", pod(LATER)):
            wait_until("the pod that came later", lambda: self.container(LATER), timeout=120)
        time.sleep(LOOKS_SECONDS)
        return f"EDITED={value}" not in (self.environment(name) or f"EDITED={value}")

    def _edit(self, path: str, value: str) -> None:
        marks = ("    imagePullPolicy: Never\n", f"    env: [{{name: EDITED, value: {value}}}]\n")
        text = "".join(line for line in self.read(path).splitlines(True) if "name: EDITED" not in line)
        self.write(path, text.replace(marks[0], "".join(marks)))

    def without_line(self, path: str) -> str:
        """Return a manifest without the line that a run added, and its comment."""
        lines = self.read(path).splitlines(True)
        at = lines.index(f"  {COMMENT}\n")
        return "".join([*lines[:at], *lines[at + 2 :]])

    def becomes(self, there: Callable[[], bool]) -> bool:
        """Report whether something comes true while a kubelet looks at its manifests."""
        end = time.monotonic() + LOOKS_SECONDS * PATIENCE
        while time.monotonic() < end:
            if there():
                return True
            time.sleep(0.5)
        return False
