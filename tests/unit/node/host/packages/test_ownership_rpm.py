"""Tests how responses of rpm are interpreted."""

import pytest

from nodeupgrade.node.host.packages.ownership import parse_owners
from tests.builders.kubelet_package import USUAL


@pytest.mark.parametrize(
    ("status", "output", "owners"),
    [
        (0, "kubelet\n", ("kubelet",)),
        (0, "kubelet\nkubernetes1.30-node\n", ("kubelet", "kubernetes1.30-node")),
        (1, "file /usr/bin/kubelet is not owned by any package\n", ()),
        (1, "file /usr/bin/kube is not owned by any package\n", None),
        (0, "file /usr/bin/kubelet is not owned by any package\n", None),
        (1, "", None),
        (1, "error: cannot open Packages database in /var/lib/rpm\n", None),
        (127, "chroot: failed to run command 'rpm'\n", None),
        (0, "", None),
    ],
)
def test_only_a_plain_answer_of_rpm_counts(status: int, output: str, owners: tuple[str, ...] | None) -> None:
    assert parse_owners(USUAL, status, output) == owners


def test_that_nobody_owns_a_file_counts_only_if_rpm_could_read_its_database() -> None:
    said = "file /usr/bin/kubelet is not owned by any package\n"
    complained = "error: cannot open Packages database in /var/lib/rpm\n"

    assert parse_owners(USUAL, 1, said, complained) is None
    assert parse_owners(USUAL, 1, said, "warning: Converting database from bdb_ro to sqlite backend\n") == ()
    assert parse_owners(USUAL, 0, "kubelet\n", complained) == ("kubelet",)
