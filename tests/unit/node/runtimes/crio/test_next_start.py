"""Tests which files count as those that a start of CRI-O reads."""

from pathlib import Path

import pytest

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


class Shown(CrioProgram):
    """A program that shows a configuration with these logs."""

    def __init__(self, logs: str) -> None:
        super().__init__()
        self.logs = logs

    def configuration(self, *_given: object) -> str:
        commented = {"root": "/r", "runroot": "/rr", "storage_driver": "overlay", "listen": "/s"}
        lines = [f'# {name} = "{value}"' for name, value in {**commented, "default_runtime": "runc"}.items()]
        return "\n".join((*lines, "[crio]", f'log_dir = "{self.logs}"', ""))


@pytest.mark.parametrize(
    ("logs", "words", "environment", "complaint"),
    [
        ("/var/log/crio/pods", "", {}, ""),
        ("/data/crio", "--log /data/crio.log", {}, ""),
        ("/var/log/other", "", {}, "log_dir is /var/log/other"),
        ("/var/log/crio/pods", "--log=/var/log/crio.log", {}, "--log is /var/log/crio.log"),
        ("/var/log/crio/pods", "", {"CONTAINER_LOG": "/var/log/crio.log"}, "--log is /var/log/crio.log"),
    ],
)
def test_what_pods_may_keep_it_from_making_is_told(
    logs: str, words: str, environment: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    started = unit("crio.service", command=("/usr/bin/crio", *words.split()))
    found = find_next_start(HostFiles(tmp_path), Shown(logs), started, None, runs=RUNS, environment=environment)

    assert found.complaint.startswith(complaint)
    assert (found.places is None) is bool(complaint)
