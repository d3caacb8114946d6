"""Tests which nodes are virtual machines."""

import json
from pathlib import Path

from e2e.lab.machines.machine import Machine
from e2e.lab.machines.vmnode import VmNode, node_at


def test_a_node_is_what_its_record_says(tmp_path: Path) -> None:
    written = {"number": 1, "kubelet": "1.30.14", "what_only_another_checkout_knows": True}
    (tmp_path / "node.json").write_text(json.dumps(written))
    assert not isinstance(node_at("lab", tmp_path), VmNode)
    (tmp_path / "node.json").write_text(json.dumps({**written, "machine": Machine(memory=512).json()}))
    node = node_at("lab", tmp_path)
    assert isinstance(node, VmNode)
    assert node.machine.memory == 512
    assert node.image == tmp_path / "disk.raw"
