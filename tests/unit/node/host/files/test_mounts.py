"""Which filesystem holds a path, and whether anything can be written there."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.mounts import has_option, is_mount_point, is_read_only, mounts, place_of
from tests.builders.hostile_text import NAME_SEPARATORS

ROOT = "25 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro"
READ_ONLY_USR = "26 25 253:1 / /usr ro,relatime shared:2 - ext4 /dev/vda2 rw"
READ_ONLY_DEVICE = "27 25 253:2 / /var rw,relatime - squashfs /dev/loop0 ro"
WRITABLE_BIN = "28 26 253:3 / /usr/bin rw - tmpfs tmpfs rw"
SPACE = r"29 25 253:4 / /opt/my\040kubelet ro - ext4 /dev/vdb rw"


@pytest.mark.parametrize(
    ("table", "path", "read_only"),
    [
        ([ROOT], "/usr/bin", False),
        ([ROOT, READ_ONLY_USR], "/usr/bin", True),
        ([READ_ONLY_USR, ROOT], "/usr/bin", True),
        ([ROOT, READ_ONLY_USR], "/usrlocal/bin", False),
        ([ROOT, READ_ONLY_USR, WRITABLE_BIN], "/usr/bin", False),
        ([ROOT, READ_ONLY_USR, WRITABLE_BIN], "/usr", True),
        ([ROOT, READ_ONLY_DEVICE], "/var/lib/nodeupgrade", True),
        ([ROOT, SPACE], "/opt/my kubelet/bin", True),
        ([ROOT, READ_ONLY_USR, READ_ONLY_USR.replace(" ro,", " rw,")], "/usr/bin", False),
        ([ROOT.replace(" rw,", " ro,")], "/etc/systemd/system", True),
        ([], "/usr/bin", False),
    ],
)
def test_the_nearest_and_last_mount_counts(table: list[str], path: str, read_only: bool) -> None:
    assert is_read_only("\n".join(table), PurePosixPath(path)) is read_only


def test_a_mount_below_a_mount_point_that_is_hidden_does_not_count() -> None:
    """Seen on a machine: what systemd mounted below /var was propagated to the directory that /var hides."""
    table = f"""\
{ROOT}
74 25 254:0 /var /var rw,noexec,relatime shared:1 - ext4 /dev/vda rw
92 74 254:0 /var/lib/kubelet /var/lib/kubelet rw,noatime shared:1 - ext4 /dev/vda rw
93 25 254:0 /var/lib/kubelet /var/lib/kubelet rw,noexec,relatime shared:1 - ext4 /dev/vda rw
94 25 254:0 /srv /var/lib/hidden rw,ro - ext4 /dev/vda rw"""

    assert not has_option("noexec", table, PurePosixPath("/var/lib/kubelet/nodeupgrade"))
    assert has_option("noexec", table, PurePosixPath("/var/lib/nodeupgrade"))
    assert not is_read_only(table, PurePosixPath("/var/lib/hidden"))
    assert not is_mount_point(table, PurePosixPath("/var/lib/hidden"))


def test_what_is_mounted_on_a_mounts_own_root_hides_it() -> None:
    table = f"{ROOT}\n40 41 0:9 / /opt rw,noexec - tmpfs tmpfs rw\n41 25 0:8 / /opt rw - tmpfs tmpfs rw"

    assert has_option("noexec", table, PurePosixPath("/opt/bin"))


@pytest.mark.parametrize(
    "table", ["25 25 0:1 / / rw - ext4 x rw", "1 2 0:1 / / rw - ext4 x rw\n2 1 0:1 / / ro - ext4 x rw"]
)
def test_a_table_that_makes_no_sense_is_read_to_its_end(table: str) -> None:
    assert not is_read_only(table, PurePosixPath("/etc"))


def test_options_are_those_of_the_nearest_mount() -> None:
    table = f"{ROOT}\n30 25 253:5 / /var rw,nosuid,noexec,relatime - ext4 /dev/vdb rw"

    assert has_option("noexec", table, PurePosixPath("/var/lib/nodeupgrade"))
    assert not has_option("noexec", table, PurePosixPath("/usr/bin"))


@pytest.mark.parametrize(
    ("path", "mounted"), [("/opt/my kubelet", True), ("/opt", False), ("/opt/my kubelet/x", False)]
)
def test_a_mount_point_is_told_from_what_is_below_it(path: str, mounted: bool) -> None:
    assert is_mount_point(f"{ROOT}\n{SPACE}", PurePosixPath(path)) is mounted


@pytest.mark.parametrize("odd", NAME_SEPARATORS)
def test_no_name_hides_a_mount_or_adds_one(odd: str) -> None:
    """The kernel writes them as they are: a pod's subPath is in the fourth field, its volume's name in the fifth."""
    name = f"a{odd}9 1 0:1 / /etc ro - tmpfs none ro"
    written = name.replace(" ", r"\040")
    after = "30 25 253:5 / /srv ro - ext4 /dev/vdb rw"
    table = f"{ROOT}\n29 25 253:4 /{written} /opt/{written} ro - ext4 /dev/{written} rw\n{after}\n"

    found = list(mounts(table))

    assert [each.point for each in found] == [PurePosixPath(point) for point in ("/", f"/opt/{name}", "/srv")]
    assert found[1].source == ("253:4", PurePosixPath(f"/{name}"))
    assert is_read_only(table, PurePosixPath(f"/opt/{name}"))
    assert not is_read_only(table, PurePosixPath("/etc"))


@pytest.mark.parametrize(
    "line", ["damaged", "", ROOT.replace(" - ", " "), ROOT[:20], ROOT.removesuffix(" rw,errors=remount-ro")]
)
def test_a_line_that_is_not_the_kernels_is_an_error(line: str) -> None:
    with pytest.raises(StepFailed, match="cannot read a line of the mount table"):
        is_read_only(f"{ROOT}\n{line}\n", PurePosixPath("/etc"))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/run/containerd/containerd.sock", ("0:24", "/containerd/containerd.sock")),
        ("/srv/lib/thing", ("253:0", "/var/lib/thing")),
        ("/opt/my kubelet/bin", ("253:4", "/a b/bin")),
        ("/etc", ("253:0", "/etc")),
    ],
    ids=["of a filesystem", "below a bind mount", "with blanks", "of the root"],
)
def test_a_path_has_one_place_in_its_filesystem(path: str, place: tuple[str, str]) -> None:
    table = [
        ROOT,
        "30 25 0:24 / /run rw - tmpfs tmpfs rw",
        "31 25 253:0 /var /srv rw - ext4 /dev/vda1 rw",
        r"32 25 253:4 /a\040b /opt/my\040kubelet ro - ext4 /dev/vdb rw",
    ]

    assert place_of("\n".join(table), PurePosixPath(path)) == (place[0], PurePosixPath(place[1]))


def test_without_a_mount_there_is_no_place() -> None:
    assert place_of("", PurePosixPath("/etc")) is None
