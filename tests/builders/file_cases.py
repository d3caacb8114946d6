"""Builds files to exchange, and provides those that must be refused."""

from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.values import Digest
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.node.checks.files import FilesFound
from nodeupgrade.node.host.files.files import EntryKind, FileEntry
from nodeupgrade.node.plan.exchanged_files import FileFound, NewFile, OwnPlaces
from tests.builders.sound import OLD

CONFIG, DROP_IN = "/var/lib/kubelet/config.yaml", "/etc/systemd/system/kubelet.service.d/20-limits.conf"
WORDS = ("--cgroup-driver=systemd", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--cert-dir=/etc/kubernetes/own")
LAYOUT = read_layout((*WORDS, "--pod-manifest-path=/etc/kubernetes/static"))


LINKED_DROP_IN = PurePosixPath("/etc/kubernetes/kubelet-limits.conf")
OWN = OwnPlaces.of(LAYOUT, lambda path: path, [str(LINKED_DROP_IN)])


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
        "real": PurePosixPath(path),
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
        "found": files or (found(),), "unit": "kubelet.service", "own": OWN, "current": OLD,
        "before": LAYOUT, "after": LAYOUT,
    }  # fmt: skip
    return FilesFound(**{**known, **fields})


def with_setting(*words: str, config: bytes = b"{}") -> KubeletLayout:
    return read_layout((*WORDS, "--pod-manifest-path=/etc/kubernetes/static", *words), config)


REFUSED: dict[str, tuple[str, FilesFound]] = {
    "a symbolic link": ("symbolic link", given(found(entry=entry(CONFIG, kind=EntryKind.LINK), before=None))),
    "a link on the way": ("symbolic link", given(found(entry=entry(CONFIG, real=PurePosixPath("/data/config.yaml"))))),
    "a link on the way to a new file": ("symbolic link", given(found(old=None, real=PurePosixPath("/data")))),
    "a drop-in behind a link": ("a unit of systemd", given(found(str(LINKED_DROP_IN)))),
    "a directory": ("a directory", given(found(entry=entry(CONFIG, kind=EntryKind.DIRECTORY), before=None))),
    "a device": ("not a regular file", given(found(entry=entry(CONFIG, kind=EntryKind.OTHER), before=None))),
    "a hard link": ("2 names", given(found(entry=entry(CONFIG, links=2)))),
    "a mount": ("mounted", given(found(mounted=True))),
    "an immutable file": ("chattr -ia", given(found(immutable=True))),
    "no directory": ("create it", given(found(old=None, directory=False))),
    "a static pod": ("static pods", given(found("/etc/kubernetes/static/etcd.yaml"))),
    "the kubeconfig": ("kubeconfig", given(found("/etc/kubernetes/kubelet.conf"))),
    "a certificate of the kubelet's own": ("writes to", given(found("/etc/kubernetes/own/kubelet.crt"))),
    "another unit's drop-in": ("not a drop-in of", given(found("/etc/systemd/system/etcd.service.d/a.conf", new=b""))),
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
