"""A file that was written since systemd read it need not say anything else."""

import pytest

from nodeupgrade.node.host.systemd.loaded_settings import ReadFile, say_what_is_loaded
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus

UNIT = b"""[Unit]
Requires=containerd.service
[Service]
User=root
Environment="PATH=/opt/bin:/usr/bin"
EnvironmentFile=-/etc/environment
ExecStartPre=-/bin/true a  b
ExecStart=/opt/bin/kubelet $KUBELET_EXTRA_ARGS \\
  --v=2
"""
NODE_IP = b'[Service]\nEnvironment="KUBELET_NODE_IP=10.0.0.1"\nEnvironment="KUBELET_HOSTNAME=a b"\n'
LOADED = UnitStatus(
    name="kubelet.service",
    load_state="loaded",
    active_state="active",
    sub_state="running",
    main_pid=7,
    commands=(
        UnitCommand(when="ExecStart", program="/opt/bin/kubelet", line="/opt/bin/kubelet $KUBELET_EXTRA_ARGS --v=2"),
        UnitCommand(when="ExecStartPre", program="/bin/true", line="/bin/true a b", may_fail=True),
    ),
    environment=("PATH=/opt/bin:/usr/bin", "KUBELET_NODE_IP=10.0.0.1", "KUBELET_HOSTNAME=a b"),
    environment_files=(("/etc/environment", False),),
)


def same(drop_in: bytes, unit: bytes = UNIT, *, unit_written: bool = False) -> bool:
    files = ReadFile(content=unit, written=unit_written), ReadFile(content=drop_in, written=True)
    return say_what_is_loaded(LOADED, files)


def test_a_drop_in_that_is_written_anew_with_what_it_said() -> None:
    assert same(NODE_IP)
    assert same(b"# written by setup_net_env.sh\n" + NODE_IP + b"[Unit]\nDescription=x\n")


@pytest.mark.parametrize(
    "drop_in",
    [
        NODE_IP.replace(b"10.0.0.1", b"10.0.0.2"),
        NODE_IP + b'Environment="A=1"\n',
        NODE_IP.replace(b'Environment="KUBELET_HOSTNAME=a b"\n', b""),
        b"[Service]\nEnvironment=\n" + NODE_IP,
        NODE_IP.replace(b"10.0.0.1", b"%i"),
        NODE_IP + b"ExecStart=\nExecStart=/opt/bin/other\n",
        NODE_IP + b"ExecStartPost=/bin/true\n",
        NODE_IP + b"EnvironmentFile=/etc/other\n",
        NODE_IP + b"KillMode=process\n",
        NODE_IP + b"[Unit]\nRequires=other.service\n",
        b'[Service]\nEnvironment="A=1\n',
        b"\xff\xfe",
        b"",
    ],
)
def test_whatever_else_it_says_counts(drop_in: bytes) -> None:
    assert not same(drop_in)


def test_a_unit_file_that_was_written_since_must_set_nothing_that_cannot_be_compared() -> None:
    assert not same(NODE_IP, unit_written=True)
    assert same(NODE_IP, UNIT.replace(b"User=root\n", b"").replace(b"Requires=", b"After="), unit_written=True)


@pytest.mark.parametrize("old", [b"--v=2", b"a  b", b"/etc/environment", b"/opt/bin:"])
def test_no_file_may_say_anything_else_whenever_it_was_written(old: bytes) -> None:
    assert not same(NODE_IP, UNIT.replace(old, b"/other"))
