"""A container that ends by itself while its pod is guarded, and how soon the API server shows it."""

import subprocess
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from e2e.cluster import Cluster, Object
from e2e.lab import LabError
from e2e.lab.nodes import asnode
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.process import wait_until
from e2e.lab.workloads import probed
from e2e.lab.workloads.splitpods import make_anew

NAME = "crashes"
POD = f"{probed.NAMESPACE}/{NAME}"
_RUN = "trap 'exit 3' TERM; while :; do sleep 0.2; done"
_READY = '{.status.conditions[?(@.type=="Ready")].status}{"\\n"}'
# For at least this many seconds a freshly started kubelet knows nothing of this pod.
_PROBE = {"exec": {"command": ["sleep", "18"]}, "periodSeconds": 5, "timeoutSeconds": 25}


class Crash:
    """Ends a pod's container once the new kubelet of an upgrade has run for so many seconds.

    Attributes:
        objection: the API server's answer, right before that, to a report that the pod is unready.
        seen_after: seconds from the container's end until the kubelet's log mentions it.
        unready_after: seconds from then until a watch saw the pod unready; negative if that was before.
    """

    def __init__(self, cluster: Cluster, after: float) -> None:
        self._cluster = cluster
        self._after = timedelta(seconds=after)
        self._thread = threading.Thread(target=self._run)
        self._over = threading.Event()
        self._earlier: str | None = None
        self.objection = ""
        self.seen_after = self.unready_after = float("inf")

    def __enter__(self) -> Self:
        """Start the pod, wait until it is Ready, and wait for the upgrade."""
        main = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", _RUN]}
        spec = {"nodeName": self._cluster.node.name, "terminationGracePeriodSeconds": 1}
        self._cluster.lab.apply({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": probed.NAMESPACE},
            "spec": {**spec, "containers": [{**main, "readinessProbe": _PROBE}]},
        })  # fmt: skip
        wait_until("the pod that will crash", self._ready, timeout=150)
        self._earlier = self._status().get("runID")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until the pod was seen unready, if its container was ended at all."""
        self._over.set()
        self._thread.join()

    def _ready(self) -> bool:
        """Report whether the pod is Ready; if the runtime has split it, make it anew."""
        lab = self._cluster.lab
        ready = probed.is_ready(lab.api.get("pods", NAME, namespace=probed.NAMESPACE))
        return ready and not make_anew(lab, probed.NAMESPACE)

    def _run(self) -> None:
        argv = ("get", "pod", NAME, "-n", probed.NAMESPACE, "--watch", "-o", f"jsonpath={_READY}")
        command = self._cluster.lab.command(str(self._cluster.lab.kubectl_binary), *argv)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watch:
            unready: list[float] = []
            reader = threading.Thread(target=_note_unready, args=(watch, unready))
            reader.start()
            try:
                [pid] = [c.pid for c in self._cluster.node.snapshot().running() if c.pod == POD]
                wait_until("the new kubelet", self._new_kubelet_runs, timeout=300, interval=0.2)
                if not self._over.is_set():
                    self.objection = asnode.objection_to_unready(self._cluster.lab, self._cluster.node, POD)
                    self._cluster.node.exec("kill", "-TERM", str(pid))
                    killed = time.time()
                    wait_until("the pod to be unready", lambda: unready, timeout=120)
                    seen = wait_until("the kubelet's word", lambda: self._seen(killed), timeout=60, interval=0.5)
                    self.seen_after, self.unready_after = round(seen - killed, 2), round(unready[0] - seen, 2)
            finally:
                watch.kill()
                reader.join()

    def _new_kubelet_runs(self) -> bool:
        """Report whether the upgrade's kubelet has run for long enough, or the upgrade is over."""
        status = self._status()
        steps = status.get("steps", ()) if status.get("runID") != self._earlier else ()
        started = [s["finishedAt"] for s in steps if s["name"] == "start-kubelet" and s["result"] == "Done"]
        long_enough = any(datetime.fromisoformat(moment) + self._after <= datetime.now(UTC) for moment in started)
        return self._over.is_set() or long_enough

    def _seen(self, killed: float) -> float | None:
        """Return when the kubelet logged that a container of the pod had died."""
        log = self._cluster.node.exec("journalctl", "-u", "kubelet", "-o", "short-unix", "-n", "5000", timeout=120)
        said = [line for line in log.stdout.splitlines() if f'pod="{POD}"' in line and '"ContainerDied"' in line]
        return next((moment for line in said if (moment := float(line.split()[0])) > killed), None)

    def _status(self) -> Object:
        with suppress(LabError):  # no task yet
            status: Object = self._cluster.task().get("status", {})
            return status
        return {}


def _note_unready(watch: subprocess.Popen[str], seen: list[float]) -> None:
    assert watch.stdout is not None
    for line in watch.stdout:
        if line.strip() != "True":
            seen.append(time.time())  # noqa: PERF401 - while it is being read elsewhere
