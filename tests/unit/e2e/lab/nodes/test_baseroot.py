"""Tests where base root file systems are cached."""

from e2e.lab.nodes import baseroot
from e2e.lab.runtimes import runtime_named
from e2e.lab.runtimes.crio import VERSION


def test_a_base_root_belongs_to_one_version() -> None:
    names = {name: baseroot.directory(runtime_named(name)).name for name in ("containerd", "docker", "crio")}
    assert f"crio{VERSION}" in names["crio"]
    assert len(set(names.values())) == 3
