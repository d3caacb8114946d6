"""Gather what a starting kubelet reads of its host. Changes nothing."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import PurePosixPath

from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import shorten
from nodeupgrade.cluster.clock_offset import ahead
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, KubeletLayout
from nodeupgrade.kubelet.settings import Configured, cpus_in
from nodeupgrade.node.checks.credentials import named_in
from nodeupgrade.node.checks.host import PROTECTED
from nodeupgrade.node.checks.resources import CPU, HUGE_PAGES, MEMORY
from nodeupgrade.node.checks.startup import CredentialProviders, StartingHost
from nodeupgrade.node.facts.admission import NUMA_NODES
from nodeupgrade.node.facts.credentials import identity
from nodeupgrade.node.facts.disk_space import DiskSpace
from nodeupgrade.node.host.files.files import DiskUsage, FilesView
from nodeupgrade.node.node import ReadOnlyNode
from nodeupgrade.node.runtimes.description import RuntimeInfo
from nodeupgrade.text import lines, number, trimmed, words

SWAPS = PurePosixPath("/proc/swaps")
KERNEL = PurePosixPath("/proc/sys")
MEMINFO = PurePosixPath("/proc/meminfo")
ONLINE_CPUS = PurePosixPath("/sys/devices/system/cpu/online")
HUGE_PAGES_OF_HOST = PurePosixPath("/sys/kernel/mm/hugepages")
HUGE_PAGE = re.compile("hugepages-([1-9][0-9]{0,9})kB")
OF_NODE = re.compile("MemTotal:[ \t]*([0-9]{1,20}) kB")
BEGINS = b"-----BEGIN CERTIFICATE-----"
SUFFIXES = (".json", ".yaml", ".yml")


def look_at_host(
    node: ReadOnlyNode,
    then: FilesView,
    space: DiskSpace,
    layout: KubeletLayout,
    runtime: RuntimeInfo,
    *,
    node_object: Json,
) -> StartingHost:
    """Return what the kubelet with these settings would read, of files and disks as they are then.

    Its client certificate is judged by the API server, and so by the API server's clock.
    """
    files, settings = node.files, layout.settings
    by_server = node.clock.now() - (ahead(node_object) or timedelta())
    online = trimmed((files.read(ONLINE_CPUS) or b"").decode(errors="replace"))
    memory = dict(_meminfo(files))
    return StartingHost(
        swaps=files.read(SWAPS),
        kernel={name: trimmed((files.read(KERNEL / name) or b"").decode(errors="replace")) for name in PROTECTED},
        disks=dict(_disks(space, settings, runtime)),
        credential_providers=_credential_providers(then, settings),
        certificates=dict(_certificates(then, settings)),
        identity=identity(files, layout, by_server),
        used_up=node.kubelet.used_up_limit(1) or "",
        online_cpus=online,
        memory=memory,
        capacity=dict(_capacity(files, online, memory)),
        numa=_numa(files),
    )


def _meminfo(files: FilesView) -> Iterator[tuple[str, int]]:
    """Yield the sizes in /proc/meminfo in bytes; lines without a unit are counts."""
    for line in lines((files.read(MEMINFO) or b"").decode(errors="replace")):
        name, _, value = line.partition(":")
        size, *unit = words(value) or [""]
        if (amount := number(size)) is None or unit not in ([], ["kB"]):
            raise StepFailed(f"cannot read {MEMINFO}: {shorten(line, 80)}")
        yield name, amount * 1024 if unit else amount


def _capacity(files: FilesView, online: str, memory: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield what a kubelet that starts finds of the host: cAdvisor counts the CPUs that are online."""
    with suppress(ValueError):
        if cpus := len(cpus_in(online)):
            yield CPU, cpus * 1000
    if (total := memory.get("MemTotal")) is not None:
        yield MEMORY, total
    yield from _huge_pages(files, HUGE_PAGES_OF_HOST)


def _numa(files: FilesView) -> Mapping[int, Mapping[str, int]]:
    """Return what cAdvisor finds of each NUMA node, empty if it cannot be read; MemTotal need not be their sum."""
    found = dict[int, Mapping[str, int]]()
    with suppress(ValueError, StepFailed):
        for node in cpus_in((files.read(NUMA_NODES) or b"").decode(errors="replace")):
            directory = NUMA_NODES.parent / f"node{node}"
            total = OF_NODE.search((files.read(directory / "meminfo") or b"").decode(errors="replace"))
            memory = {} if total is None else {MEMORY: (number(total[1]) or 0) * 1024}
            found[node] = {**memory, **dict(_huge_pages(files, directory / "hugepages"))}
        return found
    return {}


def _huge_pages(files: FilesView, directory: PurePosixPath) -> Iterator[tuple[str, int]]:
    for path in files.walk(directory):
        size = HUGE_PAGE.fullmatch(path.parent.name)
        kilobytes = size and number(size[1])
        if path.name != "nr_hugepages" or not kilobytes:  # some of the others can only be written
            continue
        pages = number(trimmed((files.read(path) or b"").decode(errors="replace")))
        if pages is not None:
            yield f"{HUGE_PAGES}{_binary(kilobytes)}", pages * kilobytes * 1024


def _binary(kilobytes: int) -> str:
    """Write a size as Kubernetes does: ``2Mi``."""
    exponent = max(each for each in range(3) if kilobytes % 1024**each == 0)
    return f"{kilobytes // 1024**exponent}{'KMG'[exponent]}i"


def _disks(space: DiskSpace, settings: Configured, runtime: RuntimeInfo) -> Iterator[tuple[tuple[str, str], DiskUsage]]:
    root = settings.flag("root-dir") or DEFAULT_ROOT
    yield ("nodefs", root), space.left(PurePosixPath(root))
    images = runtime.images or (None if runtime.places is None else runtime.places.root)
    if images is not None:
        yield ("imagefs", images), space.left(PurePosixPath(images))


def _credential_providers(files: FilesView, settings: Configured) -> CredentialProviders | None:
    named = settings.flag("image-credential-provider-config")
    directory = settings.flag("image-credential-provider-bin-dir")
    if not named or not directory:
        return None
    found = _configuration(files, PurePosixPath(named))
    names = {name for data in found.values() for name in named_in(data)}
    usable = {name for name in names if "/" not in name and _is_program(files, PurePosixPath(directory) / name)}
    return CredentialProviders(directory=directory, files=found, executable=frozenset(usable))


def _certificates(files: FilesView, settings: Configured) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield whether the files are there; of a key, nothing is read. A trial start names another clientCAFile."""
    authentication = settings.document.get("authentication")
    x509 = authentication.get("x509") if isinstance(authentication, Mapping) else None
    written = x509.get("clientCAFile") if isinstance(x509, Mapping) else None
    for setting, path, is_key in (
        ("clientCAFile", settings.flag("client-ca-file") or str(written or ""), False),
        ("tlsCertFile", settings.text("tls-cert-file", "tlsCertFile"), False),
        ("tlsPrivateKeyFile", settings.text("tls-private-key-file", "tlsPrivateKeyFile"), True),
    ):
        if path.startswith("/"):
            yield (setting, path), _is_usable(files, PurePosixPath(path), is_key=is_key)


def _is_usable(files: FilesView, path: PurePosixPath, *, is_key: bool) -> bool:
    try:
        return bool(files.size(path)) if is_key else BEGINS in (files.read(path) or b"")
    except StepFailed:  # a directory
        return False


def _configuration(files: FilesView, path: PurePosixPath) -> Mapping[str, bytes | None]:
    """Return the file, or those in the directory, that a kubelet reads."""
    try:
        return {str(path): files.read(path)}
    except StepFailed:  # a directory
        return {str(each): files.read(each) for each in files.list(path) if each.suffix in SUFFIXES}


def _is_program(files: FilesView, path: PurePosixPath) -> bool:
    try:
        return files.executable(path)
    except StepFailed:
        return False
