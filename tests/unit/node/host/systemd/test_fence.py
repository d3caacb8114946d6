"""The fence is a drop-in that systemd reads, and reads last. Putting it up needs no space and no inode."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from nodeupgrade.node.host.systemd.fence import Fence, drop_in, drop_in_text, flag
from tests.builders.as_root import AS_ROOT


def test_systemd_reads_the_drop_in_after_all_others() -> None:
    """It passes over names without the ending, and a later empty assertion would cancel ours."""
    path = drop_in("kubelet.service")

    assert str(path) == "/run/systemd/system/kubelet.service.d/zz-nodeupgrade-fence.conf"
    assert path.name > "zz-local.conf"
    assert f"AssertPathExists=!{flag('kubelet.service')}\n" in drop_in_text("kubelet.service")


@AS_ROOT
def test_it_is_put_up_again_where_no_inode_is_left(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=32", "tmpfs", str(run)], check=True)
    try:
        fence = Fence("kubelet.service", tmp_path)
        fence.prepare()
        fence.write()
        fence.put_up()
        fence.take_down()
        with contextlib.suppress(OSError):
            for number in range(100):
                (run / str(number)).touch()
        with pytest.raises(OSError, match="No space left"):
            (run / "another").touch()

        fence.prepare()
        assert fence.written()
        fence.put_up()
        assert fence.up()
    finally:
        subprocess.run(["umount", "-l", str(run)], check=True)


def test_it_is_made_again_where_somebody_has_removed_everything(tmp_path: Path) -> None:
    fence = Fence("kubelet.service", tmp_path)
    fence.prepare()
    fence.write()
    fence.put_up()
    (tmp_path / flag("kubelet.service").relative_to("/")).unlink()

    fence.prepare()
    assert fence.written()
    fence.put_up()
    assert fence.up()
    fence.take_down()
    fence.remove()
    assert not list((tmp_path / "run").rglob("*.service*"))
