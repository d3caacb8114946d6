"""Tests how machines are described and validated."""

import json

import pytest

from e2e.lab.errors import LabError
from e2e.lab.machines.machine import Machine


def test_a_machine_is_read_as_it_was_written() -> None:
    machine = Machine(suite="trixie", cgroup_driver="cgroupfs", security="selinux", swap=512, noexec_var=True)
    assert Machine.parse(json.loads(json.dumps(machine.json()))) == machine


@pytest.mark.parametrize("wrong", [{"suite": "sid"}, {"cgroup_driver": "none"}, {"security": "smack"}])
def test_a_kind_that_is_not_known_is_an_error(wrong: dict[str, str]) -> None:
    with pytest.raises(LabError, match="choose one of"):
        Machine(**wrong)  # type: ignore[arg-type]
