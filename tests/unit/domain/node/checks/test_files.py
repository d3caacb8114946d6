"""Files that go along with the kubelet: what may be exchanged, and what the new files may change."""

from dataclasses import replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest, PodRef, PodUid
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.kubelethash import KubeletVersion, default_static_container, hash_manifest_container
from nodeupgrade.node.checks import files as of_files
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.files import FilesFound
from nodeupgrade.node.examination.planning import Examination, examine
from nodeupgrade.node.examination.preview import preview
from nodeupgrade.node.host.files.entries import EntryKind, FileEntry
from nodeupgrade.node.plan.exchanged_files import FileFound, NewFile
from tests.unit.domain.node.checks.sound import OLD, facts, instance, inventory, kubelet, readiness, request, sandbox

CHECKS = checks_of(of_files, warns=False)

CONFIG, DROP_IN = "/var/lib/kubelet/config.yaml", "/etc/systemd/system/kubelet.service.d/20-limits.conf"
WORDS = ("--cgroup-driver=systemd", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--cert-dir=/etc/kubernetes/own")
LAYOUT = read_layout((*WORDS, "--pod-manifest-path=/etc/kubernetes/static"))


def digest_of(content: bytes) -> Digest:
    return Digest(sha256(content).hexdigest())


def entry(path: str, **fields: Any) -> FileEntry:
    known: dict[str, Any] = {"kind": EntryKind.FILE, "mode": 0o644, "links": 1, "real": PurePosixPath(path)}
    return FileEntry(**{**known, **fields})


def found(
    path: str = CONFIG, *, old: bytes | None = b"maxPods: 110\n", new: bytes = b"maxPods: 120\n", **fields: Any
) -> FileFound:
    """A file that can be exchanged."""
    known: dict[str, Any] = {
        "new": NewFile(path=path, mode=0o644, digest=digest_of(new), source="a test", content=new),
        "entry": None if old is None else entry(path),
        "before": None if old is None else digest_of(old),
        "directory": True,
        "mounted": False,
        "immutable": False,
        "content": old if path == DROP_IN else None,
    }
    return FileFound(**{**known, **fields})


def given(*files: FileFound, **fields: Any) -> FilesFound:
    known: dict[str, Any] = {
        "found": files or (found(),), "unit": "kubelet.service", "current": OLD, "before": LAYOUT, "after": LAYOUT,
    }  # fmt: skip
    return FilesFound(**{**known, **fields})


def with_setting(*words: str, config: bytes = b"{}") -> KubeletLayout:
    return read_layout((*WORDS, "--pod-manifest-path=/etc/kubernetes/static", *words), config)


REFUSED: dict[str, tuple[str, FilesFound]] = {
    "a symbolic link": ("symbolic link", given(found(entry=entry(CONFIG, kind=EntryKind.LINK), before=None))),
    "a link on the way": ("symbolic link", given(found(entry=entry(CONFIG, real=PurePosixPath("/data/config.yaml"))))),
    "a directory": ("a directory", given(found(entry=entry(CONFIG, kind=EntryKind.DIRECTORY), before=None))),
    "a device": ("not a regular file", given(found(entry=entry(CONFIG, kind=EntryKind.OTHER), before=None))),
    "a hard link": ("2 names", given(found(entry=entry(CONFIG, links=2)))),
    "a mount": ("mounted", given(found(mounted=True))),
    "an immutable file": ("chattr -ia", given(found(immutable=True))),
    "no directory": ("create it", given(found(old=None, directory=False))),
    "a static pod": ("static pods", given(found("/etc/kubernetes/static/etcd.yaml"))),
    "the kubeconfig": ("kubeconfig", given(found("/etc/kubernetes/kubelet.conf"))),
    "a certificate of the kubelet's own": ("writes to", given(found("/etc/kubernetes/own/kubelet.crt"))),
    "another unit's drop-in": ("no drop-in of", given(found("/etc/systemd/system/etcd.service.d/a.conf", new=b""))),
    "our drop-in": ("own", given(found("/etc/systemd/system/kubelet.service.d/90-nodeupgrade-x.conf", new=b""))),
    "cgroups move": ("cgroupRoot", given(after=with_setting(config=b"cgroupRoot: /pods"))),
    "another name": ("--hostname-override", given(after=with_setting("--hostname-override=other"))),
    "another runtime": (
        "containerRuntimeEndpoint",
        given(after=with_setting(config=b"containerRuntimeEndpoint: unix:///run/crio/crio.sock")),
    ),
    "health elsewhere": ("healthzPort", given(after=with_setting(config=b"healthzPort: 10300"))),
    "a drop-in that starts something": (
        "changes [Service] ExecStart:",
        given(found(DROP_IN, old=None, new=b"[Service]\nExecStart=\nExecStart=/bin/true\n")),
    ),
    "a drop-in with variables": (
        "changes [Service] Environment:",
        given(found(DROP_IN, old=None, new=b"[Service]\n# ours\nEnvironment=A=1\n")),
    ),
    "a drop-in that loses its command": (
        "changes [Service] ExecStart:",
        given(found(DROP_IN, old=b"[Service]\nExecStart=/usr/bin/kubelet\n", new=b"[Service]\nNice=1\n")),
    ),
    "a drop-in over two lines": (
        "changes [Service] ExecStop:",
        given(found(DROP_IN, old=None, new=b"[Service]\nLimitNOFILE=1\nExecStop=\\\n/bin/kill\n")),
    ),
    "no way back": ("no way back", given(way_back="F1120 12:39:33.0 1 server.go:1] unknown field: maxPosd")),
}


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


# ── hashes and admission: the new kubelet by the new files, the old one by the old ones ─────────────────────────────

FROM, TO = KubeletVersion.parse("v1.29.14"), KubeletVersion.parse("v1.30.14")
ETCD = PodRef(namespace="default", name="etcd-node-a", uid=PodUid("0" * 32))
MANIFEST = b"""\
kind: Pod
metadata:
  name: etcd
spec:
  containers:
  - {name: etcd, image: 'etcd:3', resources: {requests: {cpu: 100m}}}
"""
ON, OFF = (with_setting(config=b"featureGates: {InPlacePodVerticalScaling: %s}" % each) for each in (b"true", b"false"))


def hash_by(layout: KubeletLayout, version: KubeletVersion) -> str:
    written = {"name": "etcd", "image": "etcd:3", "resources": {"requests": {"cpu": "100m"}}}
    read = default_static_container(written, host_network=False, in_place_resize=layout.resizes_in_place)
    return hash_manifest_container(read, version)


def examined(before: KubeletLayout, after: KubeletLayout, **fields: Any) -> Examination:
    """A node with one static pod, whose kubelet is exchanged together with its configuration."""
    held = inventory(
        instance(hash_by(before, FROM), name="etcd", ref=ETCD), sandboxes=(sandbox(ETCD, config_source="file"),)
    )
    asked = replace(request(), spec=replace(request().spec, to_version=str(TO)))
    seen = facts(
        spec=asked.spec,
        pods=(),
        inventory=held,
        kubelet=kubelet(current=FROM, staged_version=str(TO)),
        readiness=readiness(current=FROM, target=TO, layout=after),
        files=given(before=before, after=after),
        **fields,
    )
    return examine(asked, seen, before, {"/etc/kubernetes/static/etcd.yaml": MANIFEST})


@pytest.mark.parametrize(("before", "after"), [(OFF, ON), (ON, OFF), (ON, ON), (OFF, OFF)])
def test_a_gate_in_the_new_file_decides_the_new_hash_and_only_that(before: KubeletLayout, after: KubeletLayout) -> None:
    examination = examined(before, after)

    assert examination.plan is not None, [str(finding) for finding in examination.findings]
    (container,) = examination.plan.containers
    assert container.before.container == hash_by(before, FROM)
    assert container.after.container == hash_by(after, TO)
    assert [pin.uid for pin in examination.plan.pins] == [ETCD.uid]
    [change] = examination.plan.exchanged
    assert (change.before, change.after) == (digest_of(b"maxPods: 110\n"), digest_of(b"maxPods: 120\n"))
    shown = preview(examination)
    assert shown is not None
    assert [(file.path, file.before, file.after) for file in shown.files] == [(CONFIG, change.before, change.after)]


def test_the_gate_makes_a_difference() -> None:
    """Otherwise the test above would prove nothing."""
    assert hash_by(ON, TO) != hash_by(OFF, TO)
    assert hash_by(ON, FROM) != hash_by(OFF, FROM)


@pytest.mark.parametrize(
    ("before", "after", "versions"),
    [("maxPods: -1", "maxPods: 1", [FROM]), ("maxPods: 9", "maxPods: 1", []), ("maxPods: 9", "maxPods: -1", [TO])],
)
def test_each_kubelet_admits_pods_by_its_own_file(before: str, after: str, versions: list[KubeletVersion]) -> None:
    refusals = examined(with_setting(config=before.encode()), with_setting(config=after.encode())).refusals

    assert {finding.reason for finding in refusals} == ({Reason.POD_WOULD_NOT_BE_ADMITTED} if versions else set())
    assert len(refusals) == len(versions)


def test_the_way_back_is_judged_only_if_files_are_exchanged() -> None:
    assert all(not list(each(facts())) for each in registry.WAY_BACK)
