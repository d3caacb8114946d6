"""Temporary settings of the runtime's restart: only a command line of their own makes that of the unit irrelevant."""

import pytest

from nodeupgrade.node.host.systemd.unit_start import UnitStart, differences
from nodeupgrade.node.host.systemd.units import UnitCommand
from nodeupgrade.node.runtimes.description import RestartTuning, TuningFile

DROP_IN = "/run/systemd/system/containerd.service.d/zz-nodeupgrade-shims.conf"


def start(line: str) -> UnitStart:
    command = UnitCommand(when="ExecStart", program="/usr/bin/containerd", line=line)
    return UnitStart(unit="containerd.service", program="/usr/bin/containerd", commands=(command,), files={})


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ("[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config /run/tuned.toml\n", False),
        ("[Service]\nTimeoutStopSec=10s\n", True),
    ],
)
def test_a_changed_command_is_reported_unless_another_one_is_run_anyway(settings: str, reported: bool) -> None:
    tuning = RestartTuning(files=(TuningFile(path=DROP_IN, content=settings.encode()),))
    planned, now = start("/usr/bin/containerd"), start("/usr/bin/containerd --root /elsewhere")

    assert any(differences(planned, now, override=tuning.override)) is reported
