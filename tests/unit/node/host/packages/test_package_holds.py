"""What rpm answers on a node, with what it complains about."""

from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.package_holds import HostPackages
from nodeupgrade.node.host.processes.processes import ProcessTable

NOT_OWNED = "file /usr/bin/kubelet is not owned by any package"


@pytest.mark.parametrize(
    ("complaint", "owners"),
    [("", ()), ("error: cannot open Packages database in /var/lib/rpm", None)],
    ids=["a database", "a database that cannot be read"],
)
def test_a_file_is_nobodys_only_by_a_database_that_was_read(
    complaint: str, owners: tuple[str, ...] | None, tmp_path: Path
) -> None:
    rpm = tmp_path / "rpm"
    rpm.write_text(f"#!/bin/sh\necho '{complaint}' >&2\necho '{NOT_OWNED}'\nexit 1\n", encoding="ascii")
    rpm.chmod(0o755)
    packages = HostPackages(HostFiles(tmp_path), ProcessTable(), prefix=(str(rpm),))

    assert packages.rpm_owners(PurePosixPath("/usr/bin/kubelet")) == owners
