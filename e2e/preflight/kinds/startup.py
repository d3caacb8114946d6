"""What the new kubelet would start with: flags, configuration, kernel, disks.

Where the running kubelet could not do with it either, it is on the disk only, and the NodeUpgrade accepts that.
"""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator

from e2e.changes import KUBELET_UNIT, added, changed, drop_in, kubelet_settings, restart_kubelet
from e2e.cluster import Cluster, Object
from e2e.lab.nodes import nodefiles
from e2e.preflight.kinds.kubelet import ACCEPT, ACCEPTED, WOULD_NOT_START, settings
from e2e.preflight.row import WARNED, Hazard, Row

FAKE = "/run/lab-fake"


def flag(text: str) -> Hazard:
    """Add a flag to the file of flags; the running kubelet goes on without it."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with changed(cluster.node, nodefiles.KUBELET_FLAGS, lambda old: old.rstrip('"\n') + f' {text}"\n'):
            yield {}

    return make


def kernel_says(path: str, text: str, **wanted: object) -> Hazard:
    """Let a file of the kernel say something else on the node, and nowhere else; and change settings on the disk."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        node = cluster.node
        node.exec("sh", "-c", f"printf '{text}' > {FAKE} && mount --bind {FAKE} {path}")
        try:
            if wanted:
                with kubelet_settings(node, restart=False, **wanted):
                    yield {}
            else:
                yield {}
        finally:
            node.exec("umount", path)
            node.exec("rm", FAKE)

    return make


@contextlib.contextmanager
def inotify_used_up(_cluster: Cluster) -> Iterator[Object]:
    """Take what is left of the superuser's inotify instances, which all nodes of the machine share."""
    libc, taken = ctypes.CDLL(None), list[int]()
    _, most = files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        while (descriptor := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
            taken.append(descriptor)
        yield {}
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


def without(path: str) -> Hazard:
    """Move a file away that the running kubelet has read."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        cluster.node.exec("mv", path, f"{path}.away")
        try:
            yield {}
        finally:
            cluster.node.exec("mv", f"{path}.away", path)
            restart_kubelet(cluster.node)

    return make


@contextlib.contextmanager
def watchdog(cluster: Cluster) -> Iterator[Object]:
    """Let systemd watch the kubelet, with enough patience; systemd does not show a watchdog from the next start on."""
    with drop_in(cluster.node, KUBELET_UNIT, "[Service]\nWatchdogSec=900\n"):
        restart_kubelet(cluster.node)
        yield {}
    restart_kubelet(cluster.node)


@contextlib.contextmanager
def provider_missing(cluster: Cluster) -> Iterator[Object]:
    """Configure a credential provider that is not there."""
    text = (
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: absent\n"
        "  matchImages: ['*.test']\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
    )
    directory = "/etc/kubernetes"
    where = f"--image-credential-provider-config={directory}/providers.yaml"
    with (
        added(cluster.node, f"{directory}/providers.yaml", text),
        flag(f"{where} --image-credential-provider-bin-dir={directory}")(cluster),
    ):
        yield {}


ROWS = (
    Row(name="startup/setting-invalid", shows="configuration_is_accepted", reason=WOULD_NOT_START,
        make=settings(kubeAPIBurst=-1), spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/setting-unknown", shows="settings_are_known", reason="SettingIgnored", ends=WARNED,
        make=settings(restart=True, maxPodz=3)),
    Row(name="startup/cloud-provider", shows="cloud_provider_is_there", reason=WOULD_NOT_START,
        make=flag("--cloud-provider=gce"), spec=ACCEPT, also=ACCEPTED | {"configuration_is_accepted"}),
    Row(name="startup/credential-provider", shows="credential_providers_are_usable", reason=WOULD_NOT_START,
        make=provider_missing, spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/no-kubeconfig", shows="certificate_is_valid", reason=WOULD_NOT_START,
        make=without(nodefiles.KUBELET_KUBECONFIG), also=frozenset({"kubelet_starts_as_it_runs"})),
    Row(name="startup/no-client-ca", shows="named_certificates_are_there", reason=WOULD_NOT_START,
        make=without(nodefiles.AUTHORITY)),
    Row(name="startup/swap", shows="swap_is_as_configured", reason=WOULD_NOT_START, spec=ACCEPT, also=ACCEPTED,
        make=kernel_says("/proc/swaps", r"Filename Type Size Used Priority\n/dev/zero partition 1 0 -2\n",
                         failSwapOn=True)),
    Row(name="startup/kernel-settings", shows="kernel_settings_are_as_wanted", reason=WOULD_NOT_START,
        make=kernel_says("/proc/sys/vm/panic_on_oom", r"1\n", protectKernelDefaults=True),
        spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/inotify", shows="kernel_limits_leave_room", reason=WOULD_NOT_START, ends=WARNED,
        make=inotify_used_up),
    Row(name="startup/watchdog", shows="watchdog_is_known", reason=WOULD_NOT_START, make=watchdog),
    Row(name="startup/eviction", shows="disks_have_room", reason="EvictionThresholdMet",
        make=settings(evictionHard={"nodefs.available": "99%"}), spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/all-beta", shows="gates_are_set_one_by_one", reason="KubeletDefaultChanges", ends=WARNED,
        make=settings(featureGates={"AllBeta": True}), spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/image-pulls", shows="pulled_images_stay_usable", reason="KubeletDefaultChanges", ends=WARNED,
        make=settings(featureGates={"KubeletEnsureSecretPulledImages": True},
                      imagePullCredentialsVerificationPolicy="AlwaysVerify"),
        spec=ACCEPT, also=ACCEPTED),
    Row(name="startup/another-name", shows="kubelet_keeps_its_name", reason="ConfigurationDrift",
        make=flag("--hostname-override=another"), spec=ACCEPT, also=ACCEPTED),
)  # fmt: skip
