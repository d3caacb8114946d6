"""What a starting kubelet meets on its host, and the settings that mean something else to another version."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.certificate_validity import validity
from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import cgroups, changed_settings, credentials, host, startup
from nodeupgrade.node.checks.host import PROTECTED
from nodeupgrade.node.checks.startup import CredentialProviders, Identity, Readiness, StartingHost
from nodeupgrade.node.host.files.mounted_volumes import DiskUsage
from tests.unit.domain.node.checks.sound import readiness, unit

ROOMS = (cgroups, startup, changed_settings, credentials, host)
CHECKS, WARNINGS = (
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


def providers(*listed: Mapping[str, Any], executable: str = "ecr", **fields: Any) -> StartingHost:
    document = {"kind": "CredentialProviderConfig", "apiVersion": "v1", "providers": list(listed), **fields}
    return given(str(document).encode(), executable)


def given(data: bytes | None, executable: str = "ecr") -> StartingHost:
    found = CredentialProviders(directory="/opt/bin", files={"/etc/p.yaml": data}, executable=frozenset({executable}))
    return StartingHost(credential_providers=found)


BORN, END = validity(CERT)
LIMITED = b"memorySwap: {swapBehavior: LimitedSwap}"
SWAPPING = {"layout": layout(config=LIMITED), "cgroup_v2": False}
THROTTLED = layout(config=b"memoryThrottlingFactor: 0.8")
TO_1_37 = {"current": V("v1.36.3"), "target": V("v1.37.2")}
OLDER = {"current": V("v1.30.14"), "target": V("v1.31.4")}
DEFECTS: dict[str, tuple[Reason, dict[str, Any], str]] = {
    "a cloud that is gone for good": (
        START,
        {"layout": layout("--cloud-provider=gce", "--feature-gates=DisableCloudProviders=false"), **OLDER},
        "--cloud-provider=gce, which is built in no longer (enhancements #2395)",
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
    "a configuration of something else": (START, {"host": given(b"kind: Pod")}, "it is no CredentialProviderConfig"),
    "no credential provider": (START, {"host": providers()}, "it has no list of providers"),
    "a credential provider without images": (
        START, {"host": providers(provider(matchImages=[]))}, "provider ecr has no matchImages",
    ),
    "a credential provider with a misspelt field": (
        START,
        {"host": providers(provider(matchimages=1), more=1), "target": V("v1.32.0")},
        "fields that are unknown (kubernetes #128062): matchimages, more",
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
        START, {"host": identity(END - timedelta(minutes=59))}, "in /pki/c.pem is valid until 2026-11-23T",
    ),
    "a certificate that may end before a kubelet runs again": (
        START,
        {"host": identity(END - timedelta(hours=1, minutes=20)), "down_budget": timedelta(minutes=40)},
        "in /pki/c.pem is valid until 2026-11-23T",
    ),
    "a certificate of the future": (START, {"host": identity(BORN - timedelta(days=1))}, "valid only from 2026-11-21T"),
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
        "99 bytes are free on the filesystem of /var/lib/kubelet, and kubelet v1.33.13 evicts pods below 100 (no",
    ),
    "no inodes, which older kubelets did not mind": (
        Reason.EVICTION_THRESHOLD_MET,
        {
            "host": disks(imagefs=DiskUsage(size=1000, free=500, inodes=1000, free_inodes=49)),
            "current": V("v1.29.0"), "target": V("v1.30.0"),
        },
        "49 inodes are free on the filesystem of /var/lib/images, and kubelet v1.30.0 evicts pods below 50 (im",
    ),
    "a threshold in bytes": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": disks(), "layout": layout(config=b"evictionHard: {nodefs.available: 1Ki}")},
        "evicts pods below 1024",
    ),
    "a threshold that is none": (
        START,
        {"host": disks(), "layout": layout(config=b"evictionHard: {nodefs.available: some}")},
        "nodefs.available<some of evictionHard is not an amount",
    ),
    "little memory": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": memory(available=99 * MIB)},
        f"{99 * MIB} bytes of memory are available, and kubelet v1.33.13 evicts pods below {100 * MIB} (memory.avail",
    ),
    "memory that huge pages have": (
        Reason.EVICTION_THRESHOLD_MET,
        {"host": memory(available=99 * MIB, pages=512), "current": V("v1.36.3"), "target": V("v1.37.2")},
        f"{1024 * MIB} bytes are set aside for huge pages, which count no more (kubernetes #138127)",
    ),
    "memory that huge pages of another size have": (
        Reason.EVICTION_THRESHOLD_MET,
        {
            "host": memory(available=99 * MIB, Hugetlb=1024 * MIB), "current": V("v1.36.3"), "target": V("v1.37.2"),
        },
        f"{1024 * MIB} bytes are set aside for huge pages, which count no more",
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

LEFT = {
    "no cloud": {"layout": layout("--cloud-provider=external"), **OLDER},
    "a cloud that was turned on": {
        "layout": layout("--cloud-provider=azure", "--feature-gates=DisableCloudProviders=false"),
        "current": V("v1.29.0"), "target": V("v1.30.14"),
    },
    "a cloud that is still there": {
        "layout": layout("--cloud-provider=gce"), "current": V("v1.26.15"), "target": V("v1.28.15")
    },
    "a usable credential provider": {"host": providers(provider(args=["x"], env=[], tokenAttributes={}))},
    "a misspelt field before 1.32": {"host": providers(provider(more=1)), **OLDER},
    "credential providers that are not used yet": {
        "host": given(b"]"), "current": V("v1.20.15"), "target": V("v1.22.0"),
    },
    "no swap": {"host": StartingHost(swaps=b"Filename\tType\n")},
    "swap that is meant": {"host": StartingHost(swaps=SWAPS), "layout": layout(config=b"failSwapOn: false")},
    "swap that is limited on cgroup v2": {**SWAPPING, "cgroup_v2": True},
    "swap that is limited before 1.30": {**SWAPPING, "current": V("v1.28.1"), "target": V("v1.29.1")},
    "swap whose gate is off": {**SWAPPING, "layout": layout("--feature-gates=NodeSwap=false", config=LIMITED)},
    "kernel settings that the kubelet sets itself": {"host": StartingHost(kernel={"kernel/panic": "0"})},
    "kernel settings that are right": {
        "layout": layout("--protect-kernel-defaults=true"), "host": StartingHost(kernel=KERNEL),
    },
    "a certificate": {"host": identity(END - timedelta(hours=2))},
    "a token": {"host": StartingHost(identity=Identity(now=BORN))},
    "an old certificate beside a new one": {
        "host": StartingHost(identity=Identity(now=END - timedelta(hours=2), certificates={"a": b"old", "b": CERT})),
    },
    "inotify instances": {"host": StartingHost(inotify=(127, 128))},
    "a watchdog": {
        "units": (unit("kubelet.service", watchdog="30s"),), "current": V("v1.32.0"), "target": V("v1.33.13"),
    },
    "room": {"host": disks()},
    "few inodes before 1.30": {
        "host": disks(imagefs=DiskUsage(size=1000, free=500, inodes=1000, free_inodes=0)),
        "current": V("v1.28.0"), "target": V("v1.29.0"),
    },
    "memory that huge pages of another size have before 1.37": {
        "host": memory(available=99 * MIB, Hugetlb=1024 * MIB), "current": V("v1.35.4"), "target": V("v1.36.3"),
    },
    "memory that huge pages have before 1.37": {
        "host": memory(available=99 * MIB, pages=512), "current": V("v1.35.4"), "target": V("v1.36.3"),
    },
    "memory without a threshold": {
        "host": memory(available=0), "layout": layout(config=b"evictionHard: {nodefs.available: 5%}"),
    },
    "a status that a restart resets before 1.35": {
        "layout": layout("--feature-gates=ChangeContainerStatusOnKubeletRestart=true"),
    },
    "events without a limit that are none yet": {"layout": layout(config=b"eventRecordQPS: 0")},
    "a factor that is not used on cgroup v1": {
        **TO_1_37, "cgroup_v2": False,
        "layout": layout(config=b"memoryThrottlingFactor: 0.8\nfailCgroupV1: false"),
    },
    "a factor that is used already": {"layout": THROTTLED, "current": V("v1.37.0"), "target": V("v1.37.2")},
    "thresholds that are off": {
        "host": disks(nodefs=DiskUsage(size=1000, free=0, inodes=1, free_inodes=0)),
        "layout": layout(config=b"evictionHard: {nodefs.available: 0%}"),
    },
}  # fmt: skip


@pytest.mark.parametrize(("reason", "defect", "told"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_defect_is_named_once_with_what_to_do(reason: Reason, defect: dict[str, Any], told: str) -> None:
    [finding] = ask(CHECKS, readiness(**defect))

    assert finding.reason is reason
    assert told in finding.detail


@pytest.mark.parametrize("fine", LEFT.values(), ids=LEFT.keys())
def test_what_does_no_harm_is_let_pass(fine: dict[str, Any]) -> None:
    assert list(ask((*CHECKS, *WARNINGS), readiness(**fine))) == []


def test_thresholds_are_merged_with_the_default_where_that_is_asked_for() -> None:
    nearly_full = disks(nodefs=DiskUsage(size=1000, free=1, inodes=0, free_inodes=0))
    apart = b"evictionHard: {memory.available: 1Gi}"

    assert not list(ask(CHECKS, readiness(host=nearly_full, layout=layout(config=apart))))
    assert list(
        ask(CHECKS, readiness(host=nearly_full, layout=layout(config=apart + b"\nmergeDefaultEvictionSettings: true")))
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"layout": layout(config=b"eventRecordQPS: 0")}, "eventRecordQPS: 0 is no limit for kubelet v1.37.2"),
        ({"layout": layout("--event-qps=0")}, "eventRecordQPS: 0 is no limit"),
        (
            {"layout": THROTTLED, "cgroup_v2": True},
            "throttles containers for their memory by memoryThrottlingFactor: 0",
        ),
    ],
)
def test_a_setting_with_another_meaning_is_told(changed: dict[str, Any], told: str) -> None:
    assert list(ask(CHECKS, readiness(**TO_1_37, **changed))) == []
    [finding] = ask(WARNINGS, readiness(**TO_1_37, **changed))
    assert (finding.reason, told in finding.detail) == (Reason.DEFAULT_CHANGES, True)


POLICY = b"imagePullCredentialsVerificationPolicy: AlwaysVerify"
TO_1_35 = {"current": V("v1.34.0"), "target": V("v1.35.4")}


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        ("AllAlpha: true turns on", {"layout": layout("--feature-gates=AllAlpha=true")}),
        ("verifies pulled images by AlwaysVerify", {"layout": layout(config=POLICY), **TO_1_35}),
        (None, {"layout": layout("--feature-gates=AllBeta=false")}),
        (None, {"layout": layout(config=POLICY)}),
        (None, {"layout": layout(config=POLICY), "current": V("v1.35.0"), "target": V("v1.36.0")}),
        (None, {"layout": layout(config=b"imagePullCredentialsVerificationPolicy: NeverVerify"), **TO_1_35}),
        (
            None,
            {"layout": layout("--feature-gates=KubeletEnsureSecretPulledImages=false", config=POLICY), **TO_1_35},
        ),
    ],
)
def test_a_default_that_changes_is_warned_of(found: str | None, fields: dict[str, Any]) -> None:
    findings = list(ask(WARNINGS, readiness(**fields)))

    assert [finding.reason for finding in findings] == ([] if found is None else [Reason.DEFAULT_CHANGES])
    assert all(found is not None and found in finding.detail for finding in findings)


def test_inotify_instances_that_are_used_up_are_warned_of() -> None:
    [finding] = ask(WARNINGS, readiness(host=StartingHost(inotify=(128, 128))))

    assert not finding.forbids
    assert "the 128 inotify instances" in finding.message


@pytest.mark.parametrize("cut", [0, 100, 200, 300, 500])
def test_a_damaged_certificate_is_told_apart(cut: int) -> None:
    head, begin, rest = CERT.partition(b"-----\n")
    body, _, _ = rest.partition(b"-----END")
    damaged = head + begin + body[: cut // 4 * 4] + b"-----END CERTIFICATE-----"

    with pytest.raises(ValueError, match="its certificate"):
        validity(damaged)


def test_a_certificate_says_how_long_it_is_valid() -> None:
    assert (BORN.isoformat(), END - BORN) == ("2026-11-21T17:55:30+00:00", timedelta(days=2))
