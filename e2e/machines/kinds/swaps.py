"""A machine of each kind there and back; the control, which restarts everything, is on the same machine."""

from collections.abc import Callable

from e2e.machines.facts import facts
from e2e.machines.kinds import machines
from e2e.machines.row import Kind, Row, Seen
from e2e.machines.stage import NEW, OLD, Stage, wait_for_version
from e2e.naive import survivors


def _upgraded(name: str, version: str) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        stage.bring(OLD if version == NEW else NEW)
        told = facts(stage.node)
        run = stage.upgrade(name, version)
        wait_for_version(stage, version)
        said = f"{run.seconds:.0f} s" + (
            f", {run.without_kubelet:.0f} s without a kubelet" if run.without_kubelet else ""
        )
        return Seen(run=run, said=f"{said}; {told}", complaints=(*told.wrong(stage.node), *run.wrong()))

    return play


def _naive(stage: Stage) -> Seen:
    stage.bring(OLD)
    before = {container.id for container in stage.settled().running()}
    left = survivors(stage.node, NEW)
    after = {container.id for container in stage.node.snapshot().running()}
    stage.node.swap_naively(OLD)
    stage.wait_workload()
    wait_for_version(stage, OLD)
    wrong = (f"the naive swap left {len(left)} containers: this proves nothing",) if left else ()
    return Seen(containers=len(before), disturbed=len(before - after), complaints=wrong)


def _rows(word: str, kind: Kind) -> tuple[Row, ...]:
    return (
        Row(name=f"{word}/there", kind=kind, does=f"{OLD} → {NEW}", play=_upgraded(f"{word}-there", NEW)),
        Row(name=f"{word}/back", kind=kind, does=f"{NEW} → {OLD}", play=_upgraded(f"{word}-back", OLD)),
        Row(name=f"{word}/control", kind=kind, does="control: swapped the usual way", play=_naive),
    )


ROWS = (
    *_rows("plain", machines.PLAIN),
    *_rows("selinux", machines.SELINUX),
    *_rows("trixie", machines.TRIXIE),
    *_rows("cgroupfs", machines.CGROUPFS),
    *_rows("noexec", machines.NOEXEC),
    *_rows("swap", machines.SWAP),
    *_rows("little", machines.LITTLE),
)
