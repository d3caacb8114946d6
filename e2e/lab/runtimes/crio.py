"""CRI-O from its official release, which no Debian suite packages; conmon and runc are Debian's.

Its release bundle is used where it can be had. Elsewhere, ``crio`` and ``pinns`` may be put into a directory; without
them there is no such node, and tests that need one are skipped.
"""

import hashlib
import os
import platform
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from e2e.lab import paths
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.oracle import snapshot_reader
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.runtimes.cri import cri_flags
from e2e.lab.runtimes.runc import wrapper

SOCKET = "/run/crio/crio.sock"
STORAGE = "var/lib/containers/storage/overlay-containers"
VERSION = os.environ.get("NODEUPGRADE_LAB_CRIO", "1.33.13")
CGROUPS = os.environ.get("NODEUPGRADE_LAB_CRIO_CGROUPS", "systemd")
"""CRI-O's cgroup manager: ``systemd``, as by default, or ``cgroupfs``, with which conmon has to run in the pod's."""
PROGRAMS = ("crio", "pinns")

_BUNDLE = "https://storage.googleapis.com/cri-o/artifacts/cri-o.{architecture}.v{version}.tar.gz"
_CONNECT_SECONDS = 4.0
_CONFIG = f"""\
[crio]
storage_driver = "overlay"
[crio.api]
listen = "{SOCKET}"
[crio.runtime]
cgroup_manager = "{CGROUPS}"
pinns_path = "/usr/local/bin/pinns"
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/local/sbin/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/bin/conmon"
{"" if CGROUPS == "systemd" else 'monitor_cgroup = "pod"'}
[crio.image]
pause_image = "{nodeimages.PAUSE}"
pause_command = ""
[crio.network]
network_dir = "/etc/cni/net.d/"
plugin_dirs = ["/usr/lib/cni/"]
"""
_UNIT = """\
[Unit]
Description=Container Runtime Interface for OCI (CRI-O)
Before=kubelet.service

[Service]
Type=notify
ExecStart=/usr/local/bin/crio
TasksMax=infinity
LimitNOFILE=1048576
TimeoutStartSec=0
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
# No client of it is on a node: this makes one call as gRPC does, and leaves when it is asked to (GOAWAY). CRI-O waits
# for its clients when it stops: one that stayed, or that made no call, would keep it for as long as systemd lets it.
_FOLLOW = (
    "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or exit 3; "
    'my $p = "/runtime.v1.RuntimeService/Version"; my $f = "\\x83\\x86\\x04" . chr(length $p) . $p . '
    '"\\x01\\x01x\\x0f\\x10\\x10application/grpc\\x00\\x02te\\x08trailers"; '
    'syswrite $s, "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" . pack("CnCCN", 0, 0, 4, 0, 0) . '
    'pack("CnCCN", 0, length $f, 1, 4, 1) . $f . pack("CnCCN", 0, 5, 0, 1, 1) . pack("x5"); '
    'my $b = ""; while (sysread $s, $b, 4096, length $b) { while (length $b >= 9) { '
    'my ($h, $l, $t) = unpack "CnC", $b; my $n = 9 + $h * 65536 + $l; last if length $b < $n; '
    "exit 1 if $t == 7; $b = substr $b, $n } } exit 1"
)
NO_HUGE_PAGES = 's/"hugepageLimits"/"hugepageLimitsOff"/'
"""A node of the lab cannot set limits on huge pages."""
# In a unit of its own, which no restart of CRI-O runs again: nobody could tell what it does to the node.
_CGROUPS_UNIT = """\
[Unit]
Description=Take away what systemd left empty, and CRI-O would take for controllers that runc can use
Before=crio.service

[Service]
Type=oneshot
ExecStart=-/bin/sh -c 'rmdir /sys/fs/cgroup/hugetlb /sys/fs/cgroup/net_cls,net_prio /sys/fs/cgroup/perf_event'

[Install]
WantedBy=multi-user.target
"""
_CGROUPS = "lab-cgroups.service"
# An archive of Docker's form names its image; containers-storage wants that name as the destination. Some
# archives have their files in ``./``.
_IMPORT = """\
name=$(tar --extract --to-stdout --no-anchored --file "$1" manifest.json |
    sed 's/.*"RepoTags": *\\["\\([^"]*\\)".*/\\1/') &&
    skopeo copy --quiet "docker-archive:$1" "containers-storage:$name"
"""


class Crio:
    """Serves the CRI itself; each container has a conmon in a scope of its own."""

    name = "crio"
    unit = "crio.service"
    socket = SOCKET
    follow = f"perl -e '{_FOLLOW}' {SOCKET}"
    daemon = "crio"
    eras = ("1.30.14", "1.33.13")
    config = "/etc/crio/crio.conf"
    prints_config = ("crio", "config")
    serves_its_socket = True
    shares_monitors = False
    packages = ("conmon", "runc", "skopeo")
    keeps_digests = False
    version = VERSION

    @property
    def kubelet_settings(self) -> Mapping[str, object]:
        """The cgroup driver has to be that of CRI-O."""
        return {"cgroupDriver": CGROUPS}

    def check(self, kubelet: Version) -> None:
        """Accept every kubelet."""

    def complete(self, root: Path) -> None:
        """Add CRI-O's programs and unit."""
        found = programs()
        for name in PROGRAMS:
            shutil.copy2(found / name, root / "usr/local/bin" / name)
        for path, text, mode in (
            ("usr/local/sbin/runc", wrapper(NO_HUGE_PAGES), 0o755),
            (f"etc/systemd/system/{self.unit}", _UNIT, 0o644),
            (f"etc/systemd/system/{_CGROUPS}", _CGROUPS_UNIT, 0o644),
            ("etc/containers/policy.json", '{"default": [{"type": "insecureAcceptAnything"}]}\n', 0o644),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / path).chmod(mode)
        wanted = root / "etc/systemd/system/multi-user.target.wants"
        wanted.mkdir(exist_ok=True)
        for unit in (self.unit, _CGROUPS):
            (wanted / unit).symlink_to(f"/etc/systemd/system/{unit}")

    def files(self) -> Mapping[str, str]:
        """Return CRI-O's configuration."""
        files = {self.config: _CONFIG}
        if CGROUPS != "systemd":  # then every conmon is in the unit's control group, and would end with the daemon
            files[f"/etc/systemd/system/{self.unit}.d/10-conmon.conf"] = "[Service]\nKillMode=process\n"
        return files

    def with_root(self, config: str, root: str) -> str:
        """Add the setting, which is not there."""
        return config.replace("[crio]\n", f'[crio]\nroot = "{root}"\n', 1)

    def kubelet_flags(self, kubelet: Version) -> list[str]:
        """Return the flags for a runtime that serves the CRI."""
        return cri_flags(kubelet, self.socket)

    def import_command(self, archive: str) -> list[str]:
        """Copy into the storage under the name in the archive."""
        return ["sh", "-c", _IMPORT, "sh", archive]

    def remove_image(self, root: Path, name: str) -> None:
        """Ask its CRI for it."""
        snapshot_reader.remove_image(Path(f"{root}{self.socket}"), name)

    def ready(self, root: Path) -> bool:
        """Ask its CRI."""
        return snapshot_reader.runtime_ready(Path(f"{root}{self.socket}"))

    def snapshot(self, node: str, root: Path) -> NodeSnapshot:
        """Ask its CRI, and read its storage."""
        socket = Path(f"{root}{self.socket}")
        return snapshot_reader.read(node, socket, root, lambda: snapshot_reader.hashes_in(root / STORAGE))


def programs() -> Path:
    """Return a directory with CRI-O's programs.

    Raises:
        LabError: there is none on this machine, and none can be downloaded.
    """
    given = os.environ.get("NODEUPGRADE_LAB_BINARIES")
    cached = paths.cache_root() / "binaries" / f"cri-o-{VERSION}"
    for directory in ((Path(given) / f"cri-o-{VERSION}") if given else cached, cached):
        if all((directory / name).is_file() for name in PROGRAMS):
            return directory
    if os.environ.get("NODEUPGRADE_LAB_DOWNLOAD") != "never":
        try:
            return _download(cached)
        except (OSError, ValueError, KeyError, tarfile.TarError):  # not reachable from here, or not published
            pass
    raise LabError(
        f"there is no CRI-O {VERSION} on this machine, and its release bundle cannot be downloaded; "
        f"put {' and '.join(PROGRAMS)} into the directory cri-o-{VERSION} below NODEUPGRADE_LAB_BINARIES"
    )


def why_not() -> str:
    """Say why there can be no node with CRI-O here; empty if there can."""
    try:
        programs()
    except LabError as error:
        return str(error)
    return ""


def _download(target: Path) -> Path:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    url = _BUNDLE.format(architecture=architecture, version=VERSION)
    with urllib.request.urlopen(f"{url}.sha256sum", timeout=_CONNECT_SECONDS) as answer:  # noqa: S310 - a constant https URL
        published = answer.read(200).decode().split()[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as directory:
        bundle, fresh = Path(directory) / "bundle.tar.gz", Path(directory) / "programs"
        with urllib.request.urlopen(url, timeout=60) as answer, bundle.open("wb") as file:  # noqa: S310
            shutil.copyfileobj(answer, file)
        if (seen := hashlib.sha256(bundle.read_bytes()).hexdigest()) != published:
            raise LabError(f"cannot use {url} because its SHA-256 is {seen}, not {published}; try again")
        fresh.mkdir()
        with tarfile.open(bundle) as archive:
            for name in PROGRAMS:
                [member] = [m for m in archive.getmembers() if m.isfile() and Path(m.name).name == name]
                content = archive.extractfile(member)
                (fresh / name).write_bytes(content.read() if content else b"")
                (fresh / name).chmod(0o755)
        fresh.rename(target)
    return target
