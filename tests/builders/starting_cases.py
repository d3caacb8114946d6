"""Provides host and credential defects that a starting kubelet encounters."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import checks_of
from nodeupgrade.kubelet.certificate_validity import validity
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.kubelet.served_ports import ServedPort
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import cgroups, changed_settings, credentials, host, startup
from nodeupgrade.node.checks.host import PROCESS_BYTES, PROTECTED
from nodeupgrade.node.checks.startup import CredentialProviders, Identity, Readiness, StartingHost
from nodeupgrade.node.host.files.files import DiskUsage
from nodeupgrade.node.running_kubelet.taken_ports import Listener, TakenPort
from tests.builders.sound import unit

ROOMS = (cgroups, startup, changed_settings, credentials, host)
CHECKS, START_WARNINGS = (
    [check for check in checks_of(*ROOMS, warns=warns) if check.facts is Readiness] for warns in (False, True)
)
V = KubeletVersion.parse
CERT = b"""
-----BEGIN CERTIFICATE-----
MIIBsjCCAVmgAwIBAgIUKm0k4iSsd9rDXjcKAMP7E6QdBbowCgYIKoZIzj0EAwIw
LzEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMRYwFAYDVQQDDA1zeXN0ZW06bm9kZTph
MB4XDTI2MTEyMTE3NTUzMFoXDTI2MTEyMzE3NTUzMFowLzEVMBMGA1UECgwMc3lz
dGVtOm5vZGVzMRYwFAYDVQQDDA1zeXN0ZW06bm9kZTphMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAE6ffpF+1wy+NERnnB7cGwZroTG9X0BniQSWA8U1XugLudI2fX
VDEn69rctc6MP4QLRvltS6LJwL35H9GDkqjrlaNTMFEwHQYDVR0OBBYEFB9FSLOj
lOjwfrkel2dPCiZEax9HMB8GA1UdIwQYMBaAFB9FSLOjlOjwfrkel2dPCiZEax9H
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgFVBDFR8UvoBj2W3x
4UpHtKBhDtVIawLzies9gm73uG0CIG4abZiC2fTVbtvv0ikP1T+UdVnJIDJs8KAh
L0THsc3A
-----END CERTIFICATE-----
"""
START = Reason.KUBELET_WOULD_NOT_START
SWAPS = b"Filename\tType\tSize\tUsed\tPriority\n/dev/dm-1 partition 8388604 0 -2\n"
KERNEL = {name: str(value) for name, value in PROTECTED.items()}
MIB = 1024 * 1024
DISK = DiskUsage(size=1000, free=500, inodes=1000, free_inodes=500)


def layout(*words: str, config: bytes = b"") -> KubeletLayout:
    return read_layout(("--cgroup-driver=systemd", *words), config)


def identity(now: datetime, certificate: bytes = CERT) -> StartingHost:
    return StartingHost(identity=Identity(now=now, certificates={"/pki/c.pem": certificate}))


def disks(imagefs: DiskUsage = DISK, nodefs: DiskUsage = DISK) -> StartingHost:
    return StartingHost(disks={("nodefs", "/var/lib/kubelet"): nodefs, ("imagefs", "/var/lib/images"): imagefs})


def memory(*, available: int, pages: int = 0, **more: int) -> StartingHost:
    numbers = {"MemTotal": 4096 * MIB, "MemAvailable": available, "HugePages_Total": pages, "Hugepagesize": 2 * MIB}
    return StartingHost(memory={**numbers, **more})


def provider(**fields: Any) -> dict[str, Any]:
    given = {"name": "ecr", "matchImages": ["*.ecr"], "defaultCacheDuration": "12h", "apiVersion": "v1"}
    return {**given, **fields}


TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}


def providers(*listed: Mapping[str, Any], executable: str = "ecr", **fields: Any) -> StartingHost:
    document = {"kind": "CredentialProviderConfig", "apiVersion": "v1", "providers": list(listed), **fields}
    return given(str(document).encode(), executable)


def given(data: bytes | None, executable: str = "ecr") -> StartingHost:
    found = CredentialProviders(directory="/opt/bin", files={"/etc/p.yaml": data}, executable=frozenset({executable}))
    return StartingHost(credential_providers=found)


BORN, END = validity(CERT)
LIMITED = b"memorySwap: {swapBehavior: LimitedSwap}"
SWAPPING = {"layout": layout(config=LIMITED), "cgroup_v2": False}


OLDER = {"current": V("v1.30.14"), "target": V("v1.31.4")}
DEFECTS: dict[str, tuple[Reason, dict[str, Any], str]] = {
    "a cloud that is gone for good": (
        START,
        {"layout": layout("--cloud-provider=gce", "--feature-gates=DisableCloudProviders=false"), **OLDER},
        "--cloud-provider=gce, which is no longer built in (enhancements #2395)",
    ),
    "a port of somebody else": (
        Reason.KUBELET_PORT_TAKEN,
        {
            "taken": (
                TakenPort(
                    served=ServedPort(setting="port", address="10.0.0.5", port=10250),
                    by=Listener(address="10.0.0.5", port=10250, pid=7, who="nc, own.service"),
                ),
            )
        },
        "port 10250 (port) is taken: nc, own.service (process 7) listens on 10.0.0.5",
    ),
    "a cloud that is off": (
        START,
        {"layout": layout("--cloud-provider=azure"), "current": V("v1.28.15"), "target": V("v1.29.0")},
        "kubernetes #117503",
    ),
    "amazon's": (
        START,
        {"layout": layout("--cloud-provider=aws"), "current": V("v1.26.15"), "target": V("v1.27.0")},
        "kubernetes #115838",
    ),
    "a credential provider that is not there": (START, {"host": providers(provider(name="gcr"))}, "names gcr, which"),
    "no configuration of credential providers": (START, {"host": given(None)}, "there is no /etc/p.yaml"),
    "a configuration of credential providers that is no YAML": (START, {"host": given(b"]")}, "cannot be read"),
    "a configuration of something else": (START, {"host": given(b"kind: Pod")}, "it is not a CredentialProviderConfig"),
    "no credential provider": (START, {"host": providers()}, "it has no list of providers"),
    "a credential provider without images": (
        START, {"host": providers(provider(matchImages=[]))}, "provider ecr has no matchImages",
    ),
    "a credential provider with a misspelt field": (
        START,
        {"host": providers(provider(matchimages=1), more=1), "target": V("v1.32.0")},
        "fields that are unknown (kubernetes #128062): matchimages, more",
    ),
    "tokens for credential providers that 1.32 does not know": (
        START,
        {"host": providers(provider(tokenAttributes=TOKENS)), "current": V("v1.34.4"), "target": V("v1.32.13")},
        "fields that are unknown (kubernetes #128062): tokenAttributes",
    ),
    "tokens for credential providers whose gate is off by default": (
        START,
        {"host": providers(provider(tokenAttributes={})), "current": V("v1.34.4"), "target": V("v1.33.6")},
        "provider ecr has tokenAttributes, which needs the feature gate KubeletServiceAccountTokenForCredential",
    ),
    "tokens for credential providers whose gate is turned off": (
        START,
        {
            "host": providers(provider(tokenAttributes=TOKENS)), "current": V("v1.34.4"), "target": V("v1.35.4"),
            "layout": layout("--feature-gates=KubeletServiceAccountTokenForCredentialProviders=false"),
        },
        "which needs the feature gate",
    ),
    "tokens for credential providers that are cached as 1.33 does not know": (
        START,
        {
            "host": providers(provider(tokenAttributes=TOKENS)), "current": V("v1.34.4"), "target": V("v1.33.6"),
            "layout": layout("--feature-gates=KubeletServiceAccountTokenForCredentialProviders=true"),
        },
        "has tokenAttributes with cacheType, which only kubelets from 1.34 on know",
    ),
    "tokens for credential providers that are not cached": (
        START,
        {
            "host": providers(provider(tokenAttributes={**TOKENS, "cacheType": ""})), "current": V("v1.33.6"),
            "target": V("v1.34.4"),
        },
        "has tokenAttributes without cacheType",
    ),
    "a directory without configuration": (
        START,
        {"host": StartingHost(credential_providers=CredentialProviders(
            directory="/opt/bin", files={}, executable=frozenset()
        ))},
        "has no configuration file",
    ),
    "swap": (START, {"host": StartingHost(swaps=SWAPS)}, "swap is on (/dev/dm-1)"),
    "swap that is limited on cgroup v1": (
        START, {**SWAPPING, "current": V("v1.29.1"), "target": V("v1.30.1")}, "(kubernetes #123738); set it to NoSwap",
    ),
    "a kernel setting": (
        START,
        {
            "layout": layout(config=b"protectKernelDefaults: true"),
            "host": StartingHost(kernel={**KERNEL, "kernel/panic": "0", "kernel/keys/root_maxkeys": ""}),
        },
        "kernel.keys.root_maxkeys is not readable: the kubelet would not start; run `sysctl -w kernel.panic=10",
    ),
    "a certificate that ends soon": (
        START, {"host": identity(END - timedelta(minutes=59))}, "in /pki/c.pem is valid only until 2026-11-23T",
    ),
    "a certificate that may end before a kubelet runs again": (
        START,
        {"host": identity(END - timedelta(hours=1, minutes=20)), "down_budget": timedelta(minutes=40)},
        "in /pki/c.pem is valid only until 2026-11-23T",
    ),
    "a certificate that a setting names": (
        START,
        {"host": StartingHost(certificates={("clientCAFile", "/pki/ca.crt"): False, ("tlsCertFile", "/c"): True})},
        "since /pki/ca.crt, which clientCAFile names, is not there",
    ),
    "a certificate of the future": (START, {"host": identity(BORN - timedelta(days=1))}, "not valid before 2026"),
    "a certificate that is none": (START, {"host": identity(BORN, b"junk")}, "/pki/c.pem: it has no certificate"),
    "no kubeconfig": (
        START, {"host": StartingHost(identity=Identity(now=BORN, problem="there is no /etc/k.conf"))}, "there is no /e",
    ),
    "a watchdog that nobody feeds": (
        START,
        {
            "units": (unit("kubelet.service", watchdog="30s"),),
            "current": V("v1.32.0"), "target": V("v1.31.4"),
        },
        "WatchdogSec=30s, but kubelet v1.31.4",
    ),
    "a full disk": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": disks(nodefs=DiskUsage(size=1000, free=99, inodes=0, free_inodes=0))},
        "99 bytes would be free on the filesystem of /var/lib/kubelet during the run, and kubelet v1.33.13 evicts p",
    ),
    "no inodes, which older kubelets did not mind": (
        Reason.EVICTION_THRESHOLD_MET,
        {
            "host": disks(imagefs=DiskUsage(size=1000, free=500, inodes=1000, free_inodes=49)),
            "current": V("v1.29.0"), "target": V("v1.30.0"),
        },
        "49 inodes would be free on the filesystem of /var/lib/images during the run, and kubelet v1.30.0 evicts",
    ),
    "a threshold in bytes": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": disks(), "layout": layout(config=b"evictionHard: {nodefs.available: 1Ki}")},
        "evicts pods below 1024",
    ),
    "a threshold that is none": (
        START,
        {"host": disks(), "layout": layout(config=b"evictionHard: {nodefs.available: some}")},
        "nodefs.available<some of evictionHard is not a quantity",
    ),
    "little memory": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": memory(available=PROCESS_BYTES + 99 * MIB)},
        f"{99 * MIB} bytes of memory would be available during the run, and kubelet v1.33.13 evicts pods below",
    ),
    "memory that huge pages have": (
        Reason.EVICTION_THRESHOLD_MET,
        {
            "host": memory(available=PROCESS_BYTES + 99 * MIB, pages=512),
            "current": V("v1.36.3"), "target": V("v1.37.2"),
        },
        f"{1024 * MIB} bytes are set aside for huge pages, which no longer count (kubernetes #138127)",
    ),
    "memory that huge pages of another size have": (
        Reason.EVICTION_THRESHOLD_MET,
        {
            "host": memory(available=PROCESS_BYTES + 99 * MIB, Hugetlb=1024 * MIB),
            "current": V("v1.36.3"), "target": V("v1.37.2"),
        },
        f"{1024 * MIB} bytes are set aside for huge pages, which no longer count",
    ),
    "a share of the memory": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": memory(available=400 * MIB), "layout": layout(config=b"evictionHard: {memory.available: 10%}")},
        f"evicts pods below {int(4096 * MIB / 10)}",
    ),
    "a status that a restart resets": (
        Reason.ENDPOINTS_WOULD_BE_LOST,
        {
            "layout": layout("--feature-gates=ChangeContainerStatusOnKubeletRestart=true"),
            "current": V("v1.34.0"), "target": V("v1.35.4"),
        },
        "report every container as not ready when it starts",
    ),
    "thresholds that are no map": (
        START, {"layout": layout(config=b"evictionHard: some")}, "evictionHard is not a map",
    ),
}  # fmt: skip
