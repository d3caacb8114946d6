"""Tests what is laid down in the rescue script."""

from dataclasses import replace

import pytest

from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.node.rescue.script import SCRIPT
from nodeupgrade.node.run.rescue_arming import write_script
from tests.builders.planned_run import planned

DEVICES = f"/var/lib/kubelet/{DEVICE_STATE}"


@pytest.mark.parametrize(("old", "new", "restored"), [("v1.30.14", "v1.33.13", False), ("v1.19.16", "v1.20.15", True)])
def test_state_files_are_put_back_only_where_their_format_changes(old: str, new: str, restored: bool) -> None:
    node, plan = planned()
    node.disk[DEVICES] = b"{}"

    write_script(node.ports, replace(plan, from_version=old, to_version=new))

    text = node.disk[str(SCRIPT)].decode()
    assert (f"put_from /var/lib/kubelet {DEVICES} " in text) is restored
    assert (DEVICES in text) is restored
