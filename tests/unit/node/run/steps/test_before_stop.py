"""Tests the steps before the kubelet stops, on real files."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.run.start_preconditions import require_old_program
from nodeupgrade.node.run.steps.order import STEPS
from tests.builders.planned_run import planned

CONFIRM, SWAP = STEPS[Step.CONFIRM_BINARIES], STEPS[Step.SWAP_BINARY]
OLD, NEW, OTHER = b"old kubelet", b"new kubelet", b"another one"


@pytest.mark.parametrize("swapped", [False, True], ids=["before it is swapped", "after that"])
def test_a_program_that_is_written_in_place_while_none_runs_is_restored(tmp_path: Path, swapped: bool) -> None:
    node, plan = planned()
    swap = replace(plan.swap, before=Digest(sha256(OLD).hexdigest()), after=Digest(sha256(NEW).hexdigest()))
    plan = replace(plan, swap=swap, exchanged=(), runtime_start=None, kubelet_start=None)
    ports = replace(node.ports, files=HostFiles(tmp_path))
    path, staged = (tmp_path / PurePosixPath(each).relative_to("/") for each in (swap.path, swap.staged))
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    path.chmod(0o751)
    staged.write_bytes(NEW)
    payload = CONFIRM.prepare(ports, plan)
    ports = replace(ports, recorded={Step.CONFIRM_BINARIES: payload}.get)
    CONFIRM.do(ports, plan, payload)
    if swapped:
        SWAP.do(ports, plan, {})
    with path.open("r+b") as file:
        file.write(OTHER)

    if not swapped:
        with pytest.raises(StepFailed, match="was changed after planning"):
            SWAP.do(ports, plan, {})
    require_old_program(ports, plan)

    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (OLD, 0o751)
