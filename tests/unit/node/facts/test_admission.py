"""What the admission of pods depends on, with names that their authors choose."""

from pathlib import Path

import pytest

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelet.user_ids import UserIds
from nodeupgrade.node.facts.admission import look_at_admission
from nodeupgrade.node.host.files.host_files import HostFiles
from tests.doubles.node import pod_json


@pytest.mark.parametrize("name", [".", "operator", "a" * 300, "a/" * 3000, "a\0b", "a\ud800", "operator/x/y"])
def test_no_name_of_a_profile_ends_an_examination(name: str, tmp_path: Path) -> None:
    """The API server takes any path below; an examination that fails counts against the rollout of all nodes."""
    (tmp_path / "var/lib/kubelet/seccomp/operator").mkdir(parents=True)
    body = pod_json("web", "app")
    context = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": name}}}
    pod = parse_pod({**body, "spec": {**body["spec"], **context}})

    assert look_at_admission(HostFiles(tmp_path), read_layout(()), [pod]).seccomp == frozenset()


@pytest.mark.parametrize("uid", [".", "a" * 300, "a\0b", "a\ud800", "web"])
def test_no_uid_that_an_author_chooses_ends_an_examination_or_an_answer(uid: str, tmp_path: Path) -> None:
    """A pod that says it is a mirror pod names itself; what is a directory, or no file at all, is no record."""
    (tmp_path / "var/lib/kubelet/pods/web/userns").mkdir(parents=True)
    body = pod_json("web", "app", uid="uid-1")
    annotations = {"kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid}
    metadata = {**body["metadata"], "annotations": annotations}
    pod = parse_pod({**body, "metadata": metadata, "spec": {**body["spec"], "hostUsers": False}})

    assert look_at_admission(HostFiles(tmp_path), read_layout(()), [pod]).namespaces == {}


@pytest.mark.parametrize(
    ("users", "program", "lacks"),
    [
        ("root:x:0:0::/:/bin/sh\nkubelet:x:998:998::/:/bin/false\n", None, True),
        ("kubelet:x:998:998::/:/bin/false\n", "usr/bin/getsubids", False),
        ("root:x:0:0:kubelet:/:/bin/sh\nkubelet-x:x:7:7::/:/\n", None, False),
        (None, None, False),
    ],
)
def test_a_user_kubelet_needs_the_program_that_lists_its_ids(
    users: str | None, program: str | None, lacks: bool, tmp_path: Path
) -> None:
    for path, text in (("etc/passwd", users), (program, "#!")):
        if path and text is not None:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
            (tmp_path / path).chmod(0o755)

    assert look_at_admission(HostFiles(tmp_path), read_layout(())).lacks_getsubids is lacks


ONE = "kubelet:65536:7208960\n"
ACCOUNTS = {"passwd": "kubelet:x:998:997::/:/bin/false\n", "group": "kubelet:x:997:\n"}
RANGE = ((65536, 7208960),)


@pytest.mark.parametrize(
    ("written", "listed"),
    [
        ({"subuid": ONE, "subgid": ONE}, UserIds(RANGE, RANGE)),
        ({"subuid": f"user:1:2\n998:65536:7208960\n998:1\n{ONE}", "subgid": "998:1:2"}, UserIds(RANGE * 2, ())),
        ({"subgid": "997:65536:7208960\n997:0:0"}, UserIds((), (*RANGE, (0, 0)))),
        ({"subuid": "kubelet:0x10000:1", "subgid": "kubelet:0200000:1"}, UserIds(None, None)),
        ({"nsswitch.conf": "passwd: sss\n#subid: sss\nsubid: \nSubID:\tfiles sss\n"}, UserIds((), ())),
        ({"nsswitch.conf": "subid: sss files\n", "subuid": ONE, "subgid": ONE}, UserIds()),
        ({"passwd": "kubelets:x:998:997::/:/\n", "subuid": ONE, "subgid": ONE}, UserIds()),
    ],
    ids=["by name", "by ID", "of the group", "not decimal", "of files", "of another source", "no user"],
)
def test_the_ids_of_a_user_kubelet_are_those_that_its_program_lists(
    written: dict[str, str], listed: UserIds, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    for name, text in (ACCOUNTS | written).items():
        (tmp_path / "etc" / name).write_text(text)

    assert look_at_admission(HostFiles(tmp_path), read_layout(())).user_ids == listed
