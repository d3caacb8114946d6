"""What the NodeUpgrade asks for."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import Cluster, Object
from e2e.lab.binaries import components
from e2e.preflight.row import NEW, OLD, SKIPPED, Hazard, Row

_TEXT = {"linux-amd64": {"path": "/opt/kubelet/v1.33.13/kubelet", "sha256": "0" * 64}}


def asking(**spec: object) -> Hazard:
    """Only the NodeUpgrade is different."""

    @contextlib.contextmanager
    def make(_: Cluster) -> Iterator[Object]:
        yield dict(spec)

    return make


def _artifact(**entry: str) -> Hazard:
    return asking(artifact={"preStaged": {"linux-amd64": {**_TEXT["linux-amd64"], **entry}}})


@contextlib.contextmanager
def another_program(cluster: Cluster) -> Iterator[Object]:
    """Offer the old kubelet as the new one."""
    artifact = cluster.pre_staged_file(components.resolve("kubelet", OLD), "0.0.1")
    try:
        yield {"artifact": artifact}
    finally:
        cluster.node.exec("rm", "-r", "/opt/kubelet/v0.0.1")


@contextlib.contextmanager
def a_script(cluster: Cluster) -> Iterator[Object]:
    """Offer a script that starts the new kubelet."""
    kubelet = cluster.pre_staged(NEW)["preStaged"]["linux-amd64"]["path"]
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "script"
        script.write_text(f'#!/bin/sh\nexec {kubelet} "$@"\n')
        yield {"artifact": cluster.pre_staged_file(script, NEW)}


ROWS = (
    Row(name="asked/same-version", shows="node_is_not_at_target", reason="AlreadyAtTarget", new=OLD, ends=SKIPPED,
        make=asking()),
    Row(name="asked/from-versions", shows="source_is_wanted", reason="SourceVersionNotListed", ends=SKIPPED,
        make=asking(fromVersions=["v1.29"])),
    Row(name="asked/downgrade", shows="downgrade_is_allowed", reason="DowngradeNotAllowed", new="1.29.15",
        make=asking(allowDowngrade=False), spec={"artifact": {"preStaged": _TEXT}}),
    Row(name="asked/skew", shows="skew_is_supported", reason="VersionSkew", new="1.34.4",
        make=_artifact()),
    Row(name="asked/platform", shows="artifact_has_platform", reason="ArtifactUnavailable",
        make=asking(artifact={"preStaged": {"linux-arm64": _TEXT["linux-amd64"]}})),
    Row(name="asked/digest", shows="program_is_as_promised", reason="DigestMismatch", make=_artifact()),
    Row(name="asked/no-program", shows="program_is_as_promised", reason="ArtifactUnavailable",
        make=_artifact(path="/opt/kubelet/none")),
    Row(name="asked/another-program", shows="program_is_as_promised", reason="WrongVersionReported",
        make=another_program,
        also=frozenset({"settings_are_known"})),
    Row(name="asked/script", shows="program_is_as_promised", reason="ArtifactUnavailable", make=a_script,
        also=frozenset({"configuration_is_accepted"})),
    Row(name="asked/unit", shows="kubelet_is_managed", reason="UnsupportedServiceManager",
        make=asking(kubelet={"unit": "other.service"})),
    Row(name="asked/hashes-stay", shows="hashes_stay", reason="HashesWouldChange",
        make=asking(hash={"mode": "AssertUnchanged"})),
)  # fmt: skip
