import pytest

from nodeupgrade.node.host.systemd.through_env import without_env
from nodeupgrade.node.host.systemd.units import UnitStatus

THERE = frozenset({"/opt/bin/containerd", "/usr/bin/containerd"})


def unit(line: str) -> UnitStatus:
    words = tuple(line.split())
    return UnitStatus(
        name="containerd.service", load_state="loaded", active_state="active", sub_state="running", main_pid=1,
        program=words[0], command=words,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("/usr/bin/env PATH=/opt/bin:/usr/bin containerd --config /c", "/opt/bin/containerd --config /c"),
        ("/usr/bin/env A=1 PATH=$X:/sbin B=2 containerd", "/usr/bin/containerd"),
        ("/bin/env containerd", "/usr/bin/containerd"),
        ("/usr/bin/env PATH=/x /opt/bin/containerd -l info", "/opt/bin/containerd -l info"),
        ("/usr/bin/env PATH=/x containerd", None),
        ("/usr/bin/env -i containerd", None),
        ("/usr/bin/env PATH=/opt/bin $X/containerd", None),
        ("/usr/bin/env PATH=relative:/x containerd", None),
        ("/usr/bin/env A=1", None),
        ("/opt/env containerd", None),
        ("/usr/bin/containerd", None),
    ],
)
def test_the_program_is_the_one_that_env_finds(line: str, named: str | None) -> None:
    found = without_env(unit(line), lambda path: str(path) in THERE)

    assert found == (unit(line) if named is None else unit(named))
