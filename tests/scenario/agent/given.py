"""What an agent in memory is given: its task, and the bundle of its image."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from nodeupgrade import bundle
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.node.bundle.store import write_manifest
from tests.doubles.node.kubelet import program


def small_bundle(root: Path) -> Path:
    """As much of a bundle as staging looks at."""
    made = root / "bundle"
    for name in (bundle.LOADER, bundle.INTERPRETER):
        (made / name).parent.mkdir(parents=True)
        (made / name).write_bytes(b"\x7fELF")
        (made / name).chmod(0o755)
    write_manifest(made, version="1.2.3", python="3.11.2", machine="x86_64")
    return made


def upgrade_task(node: NodeName, run: RunId, old: str, new: str, *, source: str) -> Task:
    return Task(
        name=node,
        uid="task-uid",
        resource_version="1",
        generation=1,
        spec=TaskSpec(
            node_name=node,
            node_uid="node-uid",
            upgrade_ref=UpgradeRef(name="kubelet-1-33", uid="0123abcd"),
            run_id=run,
            from_version=old,
            to_version=new,
            action=TaskAction.UPGRADE,
            artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=source, sha256=sha256(program(new)).hexdigest()),
            verify=VerifySettings(settle=timedelta(seconds=2)),
            deadline=datetime.now(UTC) + timedelta(hours=1),
        ),
    )
