"""Settings that must not change together with the kubelet, since running pods or the run itself depend on them."""

from collections.abc import Iterator
from typing import Any

from nodeupgrade.kubelet.defaults import DEFAULTS
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.text import trimmed

IMMUTABLE_SETTINGS: tuple[tuple[str, str], ...] = (
    # where the runtime, the kubelet's files and its endpoints are
    ("container-runtime", ""),
    ("container-runtime-endpoint", "containerRuntimeEndpoint"),
    ("image-service-endpoint", "imageServiceEndpoint"),
    ("root-dir", ""),
    ("cert-dir", ""),
    ("pod-manifest-path", "staticPodPath"),
    ("manifest-url", "staticPodURL"),
    ("volume-plugin-dir", "volumePluginDir"),
    ("seccomp-profile-root", ""),
    ("", "podLogsDir"),
    ("address", "address"),
    ("port", "port"),
    ("healthz-bind-address", "healthzBindAddress"),
    ("healthz-port", "healthzPort"),
    # which node it is
    ("kubeconfig", ""),
    ("bootstrap-kubeconfig", ""),
    ("hostname-override", ""),
    ("node-ip", ""),
    ("provider-id", "providerID"),
    ("register-node", "registerNode"),
    # where pods' cgroups are
    ("cgroup-root", "cgroupRoot"),
    ("cgroups-per-qos", "cgroupsPerQOS"),
    ("kubelet-cgroups", "kubeletCgroups"),
    ("kube-reserved-cgroup", "kubeReservedCgroup"),
    ("system-reserved-cgroup", "systemReservedCgroup"),
    ("enforce-node-allocatable", "enforceNodeAllocatable"),
)
"""By flag and by key of the configuration file; one of the two may be missing."""


def changed(before: Configured, after: Configured) -> Iterator[str]:
    """Yield the name of each of these settings that has another value; one that is not set has its default."""
    for flag, key in IMMUTABLE_SETTINGS:
        if _value(before, flag, key) != _value(after, flag, key):
            yield key or f"--{flag}"


def _value(settings: Configured, flag: str, key: str) -> str:
    given = settings.flag(flag) if flag else None
    value: Any = settings.document.get(key) if given is None else given
    if value in (None, "", [], {}):
        defaults = DEFAULTS.get(key)
        value = defaults[0] if defaults else None
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return "" if value is None else trimmed(str(value)).lower().removeprefix("unix://").rstrip("/")
