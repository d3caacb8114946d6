"""Tests which files count as those that a start of CRI-O reads."""

from pathlib import Path

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.runtimes.crio.configuration import CrioConfiguration
from nodeupgrade.node.runtimes.crio.next_start import DROP_INS, CrioProgram, find_next_start
from tests.builders.sound import unit

RUNS = CrioConfiguration(root="/r", runroot="/rr", driver="overlay", listen="/s", default_runtime="runc", handlers={})


class Silent(CrioProgram):
    """A program that does not show its configuration."""

    def configuration(self, *_given: object) -> str:
        raise StepFailed("nothing")


def test_drop_ins_are_those_of_directories_below_too_and_links(tmp_path: Path) -> None:
    """One that is changed before CRI-O starts again may have it look for its containers elsewhere."""
    below = tmp_path / DROP_INS.lstrip("/") / "site"
    below.mkdir(parents=True)
    (tmp_path / "etc/site.conf").write_text("")
    (below.parent / "10.conf").symlink_to("/etc/site.conf")
    (below / "20.conf").write_text("")

    found = find_next_start(
        HostFiles(tmp_path), Silent(), unit("crio.service", command=("/usr/bin/crio",)), None, runs=RUNS, environment={}
    )

    assert {f"{DROP_INS}/10.conf", f"{DROP_INS}/site/20.conf"} <= set(found.files)
    assert set(found.directories) == {DROP_INS, f"{DROP_INS}/site"}
