"""The fence is a drop-in that systemd reads, and reads last."""

from nodeupgrade.node.host.systemd.fence import drop_in, drop_in_text, flag


def test_systemd_reads_the_drop_in_after_all_others() -> None:
    """It passes over names without the ending, and a later empty assertion would cancel ours."""
    path = drop_in("kubelet.service")

    assert str(path) == "/run/systemd/system/kubelet.service.d/zz-nodeupgrade-fence.conf"
    assert path.name > "zz-local.conf"
    assert f"AssertPathExists=!{flag('kubelet.service')}\n" in drop_in_text("kubelet.service")
