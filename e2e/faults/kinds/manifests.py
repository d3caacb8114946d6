"""A static pod's manifest is edited after a run: the edit must count, if need be once the added line is gone."""

from collections.abc import Iterator

from e2e.changes import added
from e2e.faults.fault import UP, Fault
from e2e.faults.run import FaultRun
from e2e.lab import LabError
from e2e.lab.process import wait_until
from e2e.static_pods import FOLDER, StaticPods, pod
from nodeupgrade.node.plan.manifest_uid import COMMENT

NAME = "edited"
MANIFEST = f"{FOLDER}/{NAME}.yaml"


def edited_afterwards(run: FaultRun) -> Iterator[None]:
    """Add a variable to a static pod once the run is over."""
    pods = StaticPods(run.cluster)
    with added(run.cluster.node, MANIFEST, pod(NAME)):
        wait_until("the static pod", lambda: pods.container(NAME), timeout=60)
        yield
        yield
        older, _ = run.cluster.node.runtime.eras
        if COMMENT in pods.read(MANIFEST) and run.new != older:  # before 1.31, an edit counts with the line as well
            _with_the_line(run, pods)
        elif not pods.edit_counts(MANIFEST, NAME, "after"):
            raise LabError("an edit has no effect, which no line explains")
        else:
            run.notes.append("an edit counts")
    wait_until("the end of the static pod", lambda: not pods.container(NAME), timeout=60)


def _with_the_line(run: FaultRun, pods: StaticPods) -> None:
    told = {each["path"]: each["uid"] for each in run.cluster.task()["status"].get("manifests", [])}
    if told.get(MANIFEST) != "Added":
        raise LabError(f"the status does not say that the manifest has a line: {told}")
    if not pods.edit_is_ignored(MANIFEST, NAME, "with-the-line"):
        raise LabError("control: an edit counts although the manifest has the line: this proves nothing")
    pods.write(MANIFEST, pods.without_line(MANIFEST))
    if not pods.becomes(lambda: "EDITED=with-the-line" in pods.environment(NAME)):
        raise LabError("the edit has no effect although the line is gone")
    run.notes.append("an edit counts once the line is gone (control: not before)")


FAULTS = (
    Fault("manifest/edited-afterwards", edited_afterwards, UP),
    Fault("manifest/edited-back", edited_afterwards, UP),
)
"""Two in succession, so that one leads to a kubelet on which the line hides an edit."""
