"""Tests the next start of a kubelet whose environment file is exchanged together with it."""

from dataclasses import replace
from hashlib import sha256

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import Refused
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.node.checks.kubelet_start import Start
from nodeupgrade.node.facts.next_start import next_start
from nodeupgrade.node.plan.exchanged_files import NewFile
from tests.builders.sound import unit
from tests.doubles.node import SimulatedNode

FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
OLD = b'KUBELET_KUBEADM_ARGS="--container-runtime=remote --v=2"\nTOKEN=old\nGONE=1\n'
LINE = "/usr/bin/kubelet --config=/c.yaml $KUBELET_KUBEADM_ARGS"
WORDS = ("--config=/c.yaml", "--container-runtime=remote", "--v=2")


def started(line: str = LINE) -> Start:
    return Start(
        started=1.0,
        words=("/usr/bin/kubelet", *WORDS),
        environment={"PATH": "/bin", "TOKEN": "old", "GONE": "1"},
        unit=unit("kubelet.service", start_line=line, environment_files=((FLAGS, True),)),
        settings=Configured(),
        environment_files={FLAGS: OLD},
    )


def new(content: bytes, path: str = FLAGS) -> NewFile:
    digest = Digest(sha256(content).hexdigest())
    return NewFile(path=path, mode=0o644, digest=digest, source="a test", content=content)


@pytest.fixture
def node() -> SimulatedNode:
    node = SimulatedNode(version="v1.30.14", pods=[])
    node.disk[FLAGS] = OLD
    return node


def test_the_command_line_and_the_variables_are_those_of_the_new_file(node: SimulatedNode) -> None:
    content = b"KUBELET_KUBEADM_ARGS=--v=4\nTOKEN=new\n"

    then = next_start(node.files, WORDS, (new(content),), started())

    assert then.words == ("--config=/c.yaml", "--v=4")
    assert then.environment({"PATH": "/bin", "TOKEN": "old", "GONE": "1", "HOME": "/root"}) == {
        "PATH": "/bin", "HOME": "/root", "TOKEN": "new", "KUBELET_KUBEADM_ARGS": "--v=4",
    }  # fmt: skip
    assert tuple(then.changed) == (FLAGS,)


def test_a_new_file_that_a_pattern_stands_for_counts_like_one_that_is_there(node: SimulatedNode) -> None:
    start = started()
    unit_now = replace(start.unit, environment_files=((FLAGS, True), ("/etc/kubelet.env.d/*.env", False)))
    files = (
        new(b"KUBELET_KUBEADM_ARGS=--v=9\n", "/etc/kubelet.env.d/90.env"),
        new(b"V=1\n", "/etc/kubelet.env.d/README"),
    )

    then = next_start(node.files, WORDS, files, replace(start, unit=unit_now))

    assert then.words == ("--config=/c.yaml", "--v=9")
    assert then.environment({}).keys() == {"TOKEN", "GONE", "KUBELET_KUBEADM_ARGS"}


def test_a_new_file_is_recognised_through_links(node: SimulatedNode) -> None:
    node.files.links.update({FLAGS: "../../../etc/kubernetes/kubelet.env", "/etc/kubelet.env.d": "/etc/kubernetes/env"})
    start = started()
    unit_now = replace(start.unit, environment_files=((FLAGS, True), ("/etc/kubelet.env.d/*.env", False)))
    files = (
        new(b"KUBELET_KUBEADM_ARGS=--v=4\n", "/etc/kubernetes/kubelet.env"),
        new(b"TOKEN=new\n", "/etc/kubernetes/env/90.env"),
    )

    then = next_start(node.files, WORDS, files, replace(start, unit=unit_now))

    assert then.words == ("--config=/c.yaml", "--v=4")
    assert then.environment({})["TOKEN"] == "new"  # noqa: S105  - no password


def test_other_files_change_neither(node: SimulatedNode) -> None:
    then = next_start(node.files, WORDS, (new(OLD), new(b"{}", "/var/lib/kubelet/config.yaml")), started())

    assert then.words == WORDS
    assert then.environment({"A": "b"}) == {"A": "b"}
    assert tuple(then.changed) == ("/var/lib/kubelet/config.yaml",)


@pytest.mark.parametrize(
    ("line", "content"),
    [(LINE, b"KUBELET_KUBEADM_ARGS=a'b\n"), ("/usr/bin/start-kubelet.sh", b"KUBELET_KUBEADM_ARGS=--v=4\n")],
    ids=["an unusual file", "a script starts it"],
)
def test_a_command_line_that_nobody_can_tell_is_refused(node: SimulatedNode, line: str, content: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        next_start(node.files, WORDS, (new(content),), started(line))

    assert refusal.value.finding.reason is Reason.SETTING_NOT_CHANGEABLE
