"""Tests which files can be exchanged together with the kubelet."""

import pytest

from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.node.checks import files as of_files
from nodeupgrade.node.checks.files import FilesFound
from tests.builders.file_cases import CONFIG, DROP_IN, REFUSED, entry, found, given, with_setting

CHECKS = checks_of(of_files, warns=False)


@pytest.mark.parametrize(("said", "files"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_put_back_or_must_stay_is_refused(said: str, files: FilesFound) -> None:
    objections = ask(CHECKS, files)

    assert len(objections) == 1
    assert said in objections[0].detail
    assert objections[0].forbids


SOUND = {
    "a file": given(),
    "a file that is not there yet": given(found("/etc/kubernetes/ca.crt", old=None)),
    "limits": given(found(DROP_IN, old=b"[Service]\nLimitNOFILE=1\n", new=b"[Service]\nLimitNOFILE=2\nNice=-1\n")),
    "the same command": given(
        found(DROP_IN, old=b"[Service]\nExecStart=a  b\n", new=b"[Service]\n; why\nExecStart= a b\nTasksMax=9\n")
    ),
    "the same, written out": given(
        after=with_setting(config=b"cgroupsPerQOS: true\nhealthzPort: 10248\ncgroupRoot: ''")
    ),
    "other settings": given(after=with_setting(config=b"maxPods: 120\nfeatureGates: {A: true}")),
    "what is right already": given(found(old=b"a", new=b"a", immutable=True, entry=entry(CONFIG, links=2))),
}


@pytest.mark.parametrize("files", SOUND.values(), ids=SOUND.keys())
def test_what_may_be_exchanged_is_not_refused(files: FilesFound) -> None:
    assert ask(CHECKS, files) == ()
