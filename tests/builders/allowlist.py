"""Provides an allowlist."""

from nodeupgrade.sources.allowlist import Allowed

UNIT, SHA = "kubelet.service", "a" * 64
ALLOWED = Allowed(
    urls=("https://dl.k8s.io", "https://mirror.example/kubelets/"),
    paths=("/opt/kubelet",),
    images=("registry.example/kubelet", "registry.example:5000/"),
    pull_secrets=("mirror",),
)
