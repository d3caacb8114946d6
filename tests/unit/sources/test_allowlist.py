"""Tests which artifacts, files, units, and pull Secrets the operator's allowlist permits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.node_files import NodeFile
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.sources.allowlist import Allowed, AllowedError, forbidden, read_allowed
from tests.builders.allowlist import ALLOWED, SHA, UNIT

FILE = NodeFile(path="/etc/kubernetes/pki/a", sha256=SHA)


def url(where: str) -> TaskArtifact:
    return TaskArtifact(kind=ArtifactKind.URL, url=where, sha256=SHA)


def path(where: str) -> TaskArtifact:
    return TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=where, sha256=SHA)


def image(where: str) -> TaskArtifact:
    return TaskArtifact(kind=ArtifactKind.IMAGE, ref=f"{where}@sha256:{SHA}", path="/kubelet")


@pytest.mark.parametrize(
    "artifact",
    [
        url("https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubelet"),
        url("https://mirror.example/kubelets/v1.33.13/kubelet"),
        path("/opt/kubelet"),
        path("/opt/kubelet/v1.33.13/kubelet"),
        image("registry.example/kubelet"),
        image("registry.example/kubelet:v1.33.13"),
        image("registry.example/kubelet/amd64"),
        image("registry.example:5000/any/kubelet:v1"),
    ],
)
def test_what_is_listed_and_what_is_below_it(artifact: TaskArtifact) -> None:
    assert forbidden(artifact, UNIT, (), ALLOWED) is None
    assert forbidden(artifact, UNIT, (), Allowed(urls=(), paths=())) is not None, "the control: nothing is listed"


ELSEWHERE = [
    url("http://dl.k8s.io/release/kubelet"),
    url("https://dl.k8s.io:8443/release/kubelet"),
    url("https://dl.k8s.io.evil.example/kubelet"),
    url("https://mirror.example/kubelets-evil/kubelet"),
    url("https://mirror.example/Kubelets/kubelet"),
    path("/opt/kubelet-evil"),
    path("/var/lib/containerd/evil"),
    image("registry.example/kubelet-evil"),
    image("registry.example.evil/kubelet"),
    image("registry.example/evil"),
    image("registry.example:5001/kubelet"),
]
NOT_PLAIN = [
    url("https://dl.k8s.io@evil.example/kubelet"),
    url("https://dl.k8s.io:443@evil.example/kubelet"),
    url("https://dl.k8s.io/../kubelet"),
    url("https://mirror.example/kubelets/../evil"),
    url("https://mirror.example/kubelets/%2e%2e/evil"),
    url("https://mirror.example/kubelets/%252e%252e/evil"),
    url("https://mirror.example/kubelets/..%2fevil"),
    url("https://mirror.example/kubelets/..\\evil"),
    url("https://mirror.example/kubelets//evil"),
    url("https://mirror.example/kubelets/../users/mallory/evil?x=://y"),
    url("https://mirror.example/kubelets/kubelet?token=abc"),
    url("https://mirror.example/kubelets/kubelet#part"),
    url("https://mirror.example\\@evil.example/kubelets/kubelet"),
    url("https://dl.k8s.io./kubelet"),
    url("https://dl.k8s.io:0/kubelet"),
    url("https://dl.k8s.io:65536/kubelet"),
    url("https://dl.k8s.io"),
    url("https://dl.k8s.io\x00/kubelet"),
    url("https://dl.k8s.io/kubelet\n"),
    url("https://[::1/kubelet"),
    path("/opt/kubelet/../evil"),
    path("/opt/kubelet/./../evil"),
    path("/opt/kubelet//evil"),
    path("/opt/kubelet/../../var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/x/a:///evil"),
    path("/opt/kubelet/a\n"),
    path("/proc/1/root/evil"),
    path("/dev/watchdog"),
    path("opt/kubelet/x"),
    image("registry.example/kubelet/../evil"),
    image("kubelet"),
    image("evil/registry.example/kubelet"),
    replace(image("registry.example/kubelet"), path="/proc/1/root/evil"),
    replace(image("registry.example/kubelet"), path="/a/../proc/1/root/evil"),
    replace(image("registry.example/kubelet"), ref="registry.example/kubelet:v1"),
]


@pytest.mark.parametrize("artifact", ELSEWHERE)
def test_what_only_looks_like_it(artifact: TaskArtifact) -> None:
    assert forbidden(artifact, UNIT, (), ALLOWED) is not None
    assert forbidden(artifact, UNIT, (), replace(ALLOWED, digests=(SHA,))) is None, "what it is counts, wherever it is"
    assert forbidden(artifact, UNIT, (), replace(ALLOWED, digests=("b" * 64,))) is not None


@pytest.mark.parametrize("artifact", NOT_PLAIN)
def test_what_can_be_read_in_two_ways_is_refused_whatever_it_is(artifact: TaskArtifact) -> None:
    everything = replace(ALLOWED, digests=(SHA,), paths=("/",))
    assert forbidden(artifact, UNIT, (), everything) is not None


INSIDE = [
    *("127.0.0.1", "127.8.9.1", "localhost", "any.localhost", "0.0.0.0", "169.254.169.254", "[::1]", "[::]"),  # noqa: S104
    *("[fe80::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    *("[fd00:ec2::254]", "168.63.129.16", "100.100.100.200", "224.0.0.1"),
]


@pytest.mark.parametrize("host", INSIDE)
def test_no_digest_opens_what_is_the_nodes_own(host: str) -> None:
    by_digest = replace(ALLOWED, digests=(SHA,))
    assert forbidden(url(f"http://{host}/latest/meta-data"), UNIT, (), by_digest) is not None
    listed = replace(by_digest, urls=(f"http://{host}",))
    assert forbidden(url(f"http://{host}/latest/meta-data"), UNIT, (), listed) is None, "the administrator decides"


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "[::1%25lo]"])
def test_no_address_is_written_in_another_way(host: str) -> None:
    assert forbidden(url(f"http://{host}/k"), UNIT, (), replace(ALLOWED, digests=(SHA,))) is not None


def test_an_image_of_a_listed_digest_is_not_asked_of_the_node_itself() -> None:
    by_digest = replace(ALLOWED, digests=(SHA,))
    assert forbidden(image("evil.example/kubelet"), UNIT, (), by_digest) is None
    for registry in ("localhost:5000", "127.0.0.1:5000", "169.254.169.254:80", "localhost"):
        assert forbidden(image(f"{registry}/kubelet"), UNIT, (), by_digest) is not None


def test_only_the_digest_of_its_own_kind_counts() -> None:
    """A file's digest says nothing about an image, and an image's nothing about a file."""
    by_digest = replace(ALLOWED, digests=("b" * 64,))
    assert forbidden(replace(image("evil.example/kubelet"), sha256="b" * 64), UNIT, (), by_digest) is not None
    elsewhere = replace(url("https://evil.example/kubelet"), ref=f"a.example/b@sha256:{'b' * 64}")
    assert forbidden(elsewhere, UNIT, (), by_digest) is not None


@pytest.mark.parametrize("source", ["/proc/1/root/evil", "/dev/sda", "/a/../proc/1/root/evil", "/sys/x", "config.yaml"])
def test_files_of_an_image_are_files_of_the_image(source: str) -> None:
    sound = image("registry.example/kubelet")
    fine, taken = (replace(FILE, image_path=each) for each in ("/config.yaml", source))
    assert forbidden(sound, UNIT, (fine,), FILES_ALLOWED) is None
    assert forbidden(sound, UNIT, (fine, taken), FILES_ALLOWED) == f"the file {source} of an image"


def test_units_and_pull_secrets_are_listed_too() -> None:
    sound = image("registry.example/kubelet")
    assert forbidden(sound, "sshd.service", (), ALLOWED) == "the unit sshd.service"
    mirror, admin = "mirror", "admin"
    assert forbidden(replace(sound, pull_secret=mirror), UNIT, (), ALLOWED) is None
    assert forbidden(replace(sound, pull_secret=admin), UNIT, (), ALLOWED) == "the pull secret admin"
    by_digest = replace(ALLOWED, digests=(SHA,))
    assert forbidden(sound, "sshd.service", (), by_digest) is not None
    assert forbidden(replace(sound, pull_secret=admin), UNIT, (), by_digest) is not None


def test_a_secret_in_a_url_is_not_told() -> None:
    problem = forbidden(url("https://me:secret@evil.example/kubelet?token=secret"), UNIT, (), ALLOWED)
    assert problem == "URL https://evil.example/kubelet"


FILES_ALLOWED = replace(ALLOWED, files=("/var/lib/kubelet/config.yaml", "/etc/kubernetes/pki/"), digests=(SHA,))


@pytest.mark.parametrize(
    ("file", "sound"),
    [
        ("/var/lib/kubelet/config.yaml", True),
        ("/etc/kubernetes/pki/ca.crt", True),
        ("/var/lib/kubelet/config.json", False),
        ("/var/lib/kubelet/config.yaml.d", False),
        ("/var/lib/kubelet", False),
        ("/etc/kubernetes/pki-evil/ca.crt", False),
        ("/etc/kubernetes/pki/../kubelet.conf", False),
        ("/etc/systemd/system/kubelet.service.d/10-evil.conf", False),
        ("etc/kubernetes/pki/ca.crt", False),
    ],
)
def test_files_are_listed_too(file: str, sound: bool) -> None:
    artifact = path("/opt/kubelet/k")
    own = replace(FILE, path=file)
    problem = forbidden(artifact, UNIT, (FILE, own), FILES_ALLOWED)
    assert problem == (None if sound else f"the file {file}"), "the digest of a program says nothing about files"
    assert forbidden(artifact, UNIT, (own,), ALLOWED) == f"the file {file}", "the control: none is listed"


@given(st.text(max_size=40))
def test_nothing_leaves_a_directory(more: str) -> None:
    """Whatever is appended to an allowed place is below it, or refused."""
    if forbidden(path(f"/opt/kubelet/{more}"), UNIT, (), ALLOWED) is None:
        assert ".." not in more.split("/")
        assert "\x00" not in more


@pytest.mark.parametrize(
    "value",
    [None, [], "all", {"urls": "https://dl.k8s.io"}, {"urls": [1]}, {"any": []}, {"urls": ["dl.k8s.io"]},
     {"urls": ["https://"]}, {"urls": ["https://a@b/"]}, {"paths": ["opt"]}, {"paths": ["/opt/../"]},
     {"files": ["etc/kubernetes"]}, {"files": ["/etc/../"]}, {"files": "/"}, {"units": [""]},
     {"urls": ["https://a/b?c"]}, {"images": ["kubelet"]}, {"images": ["registry.example/A"]}, {"paths": ["/proc"]}],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused(value: object) -> None:
    with pytest.raises(AllowedError):
        read_allowed(value)


def test_what_a_configuration_does_not_name_is_not_allowed() -> None:
    assert read_allowed({}) == Allowed(urls=(), paths=(), units=())
    assert read_allowed({"paths": ["/"], "pullSecrets": ["a"]}) == Allowed(
        urls=(), paths=("/",), units=(), pull_secrets=("a",)
    )
    assert forbidden(path("/anywhere/at/all"), UNIT, (), Allowed(paths=("/",))) is None
