"""What is lost when systemd sets its own list of devices again; lists as a node with systemd 252 shows them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.node.host.device_rules import (
    DeviceNames,
    DeviceRule,
    UnitDevices,
    lost_by_reload,
    rules_of,
    rules_of_spec,
)

KERNEL = """c 136:* rwm
c 10:200 rwm
c 5:2 rwm
c 5:0 rwm
c 1:9 rwm
c 1:8 rwm
c 1:7 rwm
c 1:5 rwm
c 1:3 rwm
c *:* m
b *:* m
"""
MAJORS = "Character devices:\n  1 mem\n136 pts\n137 pts\n195 nvidia\n\nBlock devices:\n  7 loop\n136 pts\n"
NUMBERED = ("10:200", "5:2", "5:0", "1:9", "1:8", "1:7", "1:5", "1:3")
SYSTEMD = UnitDevices(
    policy="strict",
    allowed=("char-pts rwm", *(f"/dev/char/{each} rwm" for each in NUMBERED), "char-* m", "block-* m"),
)
NAMES = DeviceNames(systemd=252, majors=MAJORS)


def lost(kernel: str, unit: UnitDevices = SYSTEMD, names: DeviceNames = NAMES) -> list[str]:
    return [str(rule) for rule in lost_by_reload(rules_of(kernel), unit, names)]


def test_what_runc_tells_systemd_is_kept() -> None:
    assert lost(KERNEL) == []


@pytest.mark.parametrize("added", ["c 195:0 rw", "c 195:* r", "b 7:0 r", "a *:* rwm", "c 10:237 rwm"])
def test_what_something_else_has_added_is_lost(added: str) -> None:
    assert lost(f"{KERNEL}{added}\n") == [added]


def test_a_kind_of_access_alone_may_be_lost() -> None:
    unit = UnitDevices(policy="strict", allowed=("/dev/char/195:0 r", "char-* m"))

    assert lost("c 195:0 rm\n", unit) == []
    assert lost("c 195:0 rwm\n", unit) == ["c 195:0 rwm"]


def test_a_privileged_container_keeps_everything() -> None:
    assert lost("a *:* rwm\n", UnitDevices(policy="auto")) == []


@pytest.mark.parametrize("policy", ["closed", "auto"])
def test_other_policies_allow_pseudo_devices_besides(policy: str) -> None:
    unit = UnitDevices(policy=policy, allowed=("char-nvidia rw",))

    assert lost("c 1:3 rwm\nc 136:1 rw\nc 195:0 rw\nc 10:200 rw\n", unit) == ["c 10:200 rw"]


def test_an_old_systemd_reads_a_number_only_where_its_file_is() -> None:
    unit, kernel = UnitDevices(policy="strict", allowed=("/dev/char/195:0 rw",)), "c 195:0 rw\n"

    assert lost(kernel, unit, DeviceNames(systemd=239)) == ["c 195:0 rw"]
    assert lost(kernel, unit, DeviceNames(systemd=239, present=frozenset({"/dev/char/195:0"}))) == []
    assert lost(kernel, unit, DeviceNames(systemd=240)) == []


def test_newer_runtimes_give_the_number_of_a_group_of_devices() -> None:
    """runc for systemd since 240, and crun, for which a minor number of 0 is any."""
    unit = UnitDevices(policy="strict", allowed=("char-136 rwm", "char-195 rw"))

    assert lost("c 136:* rwm\nc 195:0 rw\nb 136:0 r\n", unit) == ["b 136:0 r"]
    assert lost("c 195:0 rw\n", unit, DeviceNames(systemd=239, majors=MAJORS)) == ["c 195:0 rw"]


def spec(*rules: object) -> bytes:
    return json.dumps({"linux": {"resources": {"devices": rules}}}).encode()


def allow(**given: object) -> dict[str, object]:
    return {"allow": True, **given}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], []),
        ([allow(type="c", major=195, minor=0, access="rw")], ["c 195:0 rw"]),
        ([allow(type="u", major=195)], ["c 195:* rwm"]),
        ([allow(type="b", major=-1, minor=-1, access="m")], ["b *:* m"]),
        ([allow(type="b", major=None, access="")], ["b *:* rwm"]),
        ([allow()], ["c *:* rwm", "b *:* rwm"]),
        ([allow(type="a", major=1, minor=2, access="r")], ["c *:* rwm", "b *:* rwm"]),
        ([allow(type="c", major=1, minor=3), {"allow": False, "access": "rwm"}], []),
        ([allow(type="c", major=1, minor=3), {"type": "c", "major": 1, "access": "wm"}], ["c 1:3 r"]),
        ([allow(type="c", major=1), {"type": "c", "major": 1, "minor": 3}], ["c 1:* rwm"]),
        ([allow(type="p")], []),
    ],
)
def test_a_specification_allows_what_its_rules_leave(rules: list[object], expected: list[str]) -> None:
    assert [str(rule) for rule in rules_of_spec(spec(*rules))] == expected


@pytest.mark.parametrize("written", [b"{}", b'{"linux": null}', b'{"linux": {"resources": {"devices": null}}}'])
def test_a_specification_without_rules_allows_nothing(written: bytes) -> None:
    assert rules_of_spec(written) == ()


@pytest.mark.parametrize(
    "written",
    [
        *(b"", b"\xff", b"{", b"[]", b"[" * 100_000, b'{"linux": []}', b'{"linux": {"resources": {"devices": {}}}}'),
        spec(1),
        spec({"allow": "yes", "type": "c"}),
        spec(allow(type="x")),
        spec(allow(type=["c"])),
        spec(allow(type="c", access="x")),
        spec(allow(type="c", access=7)),
        *(spec(allow(type="c", major=each)) for each in ("1", 1.5, True, 2**32)),
        b'{"linux": {"resources": {"devices": [{"allow": true, "type": "c", "major": 1%s}]}}}' % (b"0" * 5000),
    ],
)
def test_a_specification_that_is_not_understood_is_an_error(written: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        rules_of_spec(written)


@pytest.mark.parametrize("line", ["c 1:3", "c 1:3 rwx", "c -1:3 r", "c \u0661:3 r", "d 1:3 r", " c 1:3 r"])
def test_a_line_that_is_not_understood_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="cannot read the device rule"):
        rules_of(f"{line}\n")


NUMBERS = st.none() | st.integers(0, 300)
RULES = st.builds(
    DeviceRule, st.sampled_from("cb"), NUMBERS, NUMBERS, st.frozensets(st.sampled_from("rwm"), min_size=1)
)


@given(RULES)
def test_rules_are_read_as_they_are_written(rule: DeviceRule) -> None:
    assert rules_of(f"{rule}\n") == (rule,)


@given(st.lists(st.text("char-*blok/dev:0159 rwm", max_size=20)), st.text(max_size=60), RULES)
def test_nothing_that_is_written_there_stops_the_reading(allowed: list[str], majors: str, rule: DeviceRule) -> None:
    lost_by_reload(
        (rule,), UnitDevices(policy="strict", allowed=tuple(allowed)), DeviceNames(systemd=252, majors=majors)
    )
