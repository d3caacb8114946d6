"""Provides nodes that known defects of kubelet releases affect."""

from typing import Any

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.known_defects import KNOWN_BAD
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import Surroundings
from tests.builders.sound import SPEC, pod, readiness

V = KubeletVersion.parse
BOUGHT = {"cpu": "1", "memory": "1Gi"}
GUARANTEED = {**SPEC, "resources": {"limits": BOUGHT, "requests": BOUGHT}}


def pods(phase: str = "Running", **spec: Any) -> tuple[Any, ...]:
    return (parse_pod({**pod(**spec), "status": {"phase": phase}}),)


STATIC = readiness(layout=read_layout((), b"cpuManagerPolicy: static"))
SEVERAL = pods(containers=[GUARANTEED, {**GUARANTEED, "name": "side"}])
CONCERNED: dict[str, dict[str, Any]] = {
    "pods that ended count": {"pods": pods("Succeeded")},
    "managers forget": {"pods": SEVERAL, "readiness": STATIC},
    "volumes are reconstructed wrongly": {
        "pods": pods(
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            containers=[{**SPEC, "volumeMounts": [{"name": "data"}]}],
        )
    },
    "status is not reported": {},
    "no start on ZFS": {"around": Surroundings(filesystem="zfs")},
}


def targets() -> list[tuple[str, KubeletVersion]]:
    """Every defect with the first release that has it."""
    return [(name, V(f"v1.{first[0]}.{first[1]}")) for name, d in KNOWN_BAD.items() for first, _ in d.releases[:1]]
