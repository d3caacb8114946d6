"""Where a run keeps its programs on a node, and what a boot would forget of it."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.node import own_directories
from nodeupgrade.node.facts import gather
from tests.builders.gathered import gathered, node

OWN, KUBELETS = own_directories.PROGRAM_PLACES
DISK = "25 1 253:0 / / rw - ext4 /dev/vda1 rw"
TMP = "30 25 0:44 / /tmp rw - tmpfs tmpfs rw"
OVER = "overlay overlay rw,lowerdir=/etc,workdir=/tmp/etc/work"


@pytest.mark.parametrize(
    ("lines", "place", "unfit"),
    [
        ((), OWN, {}),
        (("30 25 253:5 / /var rw,noexec - ext4 d rw", "31 30 253:6 / /var/lib/kubelet rw - ext4 d rw"), KUBELETS, {}),
        (("31 25 253:6 / /var/lib/kubelet rw,noexec - ext4 d rw",), OWN, {}),
        (("30 25 253:5 / /var/lib/nodeupgrade ro - ext4 d ro",), KUBELETS, {}),
        (("30 25 0:44 / /var/lib/nodeupgrade rw - tmpfs tmpfs rw",), KUBELETS, {}),
        (("30 25 0:44 / /var rw - ramfs none rw",), OWN, {}),
        (
            ("30 25 253:5 / /var rw,noexec - ext4 d rw", "31 30 253:6 / /var/lib/kubelet ro - ext4 d rw"),
            OWN,
            {str(OWN): "mounted noexec", str(KUBELETS): "mounted read-only"},
        ),
    ],
)
def test_programs_have_a_place_that_may_execute_and_survives_a_boot(
    lines: tuple[str, ...], place: PurePosixPath, unfit: dict[str, str]
) -> None:
    seen = node(files={"/proc/1/mountinfo": "\n".join((DISK, *lines, "")).encode()})

    assert own_directories.program_place(seen.ports.files) == place
    assert gathered(seen).readiness.unfit_for_programs == unfit


LABELLED = "25 1 253:0 / / rw - ext4 /dev/vda1 rw,seclabel"


@pytest.mark.parametrize(
    ("enforce", "lines", "place", "unfit"),
    [
        (b"1", (LABELLED,), OWN, ()),
        (b"1", (LABELLED, "30 25 253:5 / /var rw - xfs d rw,context=system_u:object_r:var_t:s0"), OWN, (OWN, KUBELETS)),
        (b"1", (LABELLED, "30 25 253:5 / /var/lib/nodeupgrade rw - xfs d rw"), KUBELETS, ()),
        (b"0", (LABELLED, "30 25 253:5 / /var rw - xfs d rw"), OWN, ()),
        (None, (DISK,), OWN, ()),
    ],
    ids=["labels", "one label for all", "another place has labels", "permissive", "no SELinux"],
)
def test_where_selinux_is_enforced_programs_need_labels(
    enforce: bytes | None, lines: tuple[str, ...], place: PurePosixPath, unfit: tuple[PurePosixPath, ...]
) -> None:
    files = {"/proc/1/mountinfo": "\n".join((*lines, "")).encode()}
    seen = node(files=files if enforce is None else {**files, "/sys/fs/selinux/enforce": enforce})

    assert own_directories.program_place(seen.ports.files) == place
    reported = gathered(seen).readiness.unfit_for_programs
    assert reported == dict.fromkeys(map(str, unfit), "without SELinux labels of its own files (seclabel)")


@pytest.mark.parametrize(
    ("lines", "forgotten"),
    [
        ((), ()),
        (("30 25 0:44 / /etc rw - tmpfs tmpfs rw",), (str(gather.UNIT_DIRECTORY),)),
        (("30 25 0:44 / /etc rw - tmpfs t rw", "31 25 0:45 / /usr/bin rw - tmpfs t rw"), ()),
        (("30 25 0:44 / /var rw - tmpfs tmpfs rw",), (str(own_directories.STATE_DIRECTORY),)),
        ((TMP, f"31 25 0:45 / /etc rw - {OVER},upperdir=/tmp/etc/upper"), (str(gather.UNIT_DIRECTORY),)),
        ((TMP, f"31 25 0:45 / /etc rw - {OVER},upperdir=/sysroot/etc"), ()),
        ((TMP, f"31 25 0:45 / /etc rw - {OVER},upperdir=/tmpx/etc"), ()),
    ],
    ids=[
        *("a disk", "units in memory", "everything in memory", "records in memory"),
        *("units above memory", "units above a disk", "a name that looks alike"),
    ],
)
def test_what_a_boot_forgets_is_known(lines: tuple[str, ...], forgotten: tuple[str, ...]) -> None:
    seen = node(files={"/proc/1/mountinfo": "\n".join((DISK, *lines, "")).encode()})

    assert gathered(seen).readiness.volatile == forgotten
