"""What a kubelet's command line and configuration file say about where things are. Flags win over the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

DEFAULT_ROOT = "/var/lib/kubelet"
DEFAULT_ENDPOINT = "/run/containerd/containerd.sock"

# Files whose format newer kubelets changed in ways that older ones refuse at start (cpu_manager_state in 1.18,
# the device checkpoint in 1.20, dra_manager_state in 1.31).
STATE_FILES = (
    "cpu_manager_state",
    "memory_manager_state",
    "dra_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLayout:
    """Where things are on one node.

    Attributes:
        endpoint: path of the runtime's socket.
        healthz_url: where the kubelet answers about its health; ``None`` when that is switched off.
        manifests: directory of static pods; ``None`` when there is none.
        state_files: absolute paths of the files worth saving.
    """

    endpoint: str
    healthz_url: str | None
    manifests: str | None
    state_files: tuple[str, ...]


def config_path(words: tuple[str, ...]) -> str | None:
    """The configuration file that a command line names."""
    return _flag(words, "config")


def read_layout(words: tuple[str, ...], config: bytes | None) -> KubeletLayout:
    """Read the layout of a running kubelet.

    Args:
        words: its arguments, without the program.
        config: content of its configuration file, if it has one.

    Raises:
        ValueError: the configuration file is not a YAML map.
    """
    document = _parse(config)
    root = _flag(words, "root-dir") or DEFAULT_ROOT
    endpoint = _flag(words, "container-runtime-endpoint") or document.get("containerRuntimeEndpoint")
    port = _flag(words, "healthz-port") or document.get("healthzPort", 10248)
    address = _flag(words, "healthz-bind-address") or document.get("healthzBindAddress") or "127.0.0.1"
    return KubeletLayout(
        endpoint=str(endpoint or DEFAULT_ENDPOINT).removeprefix("unix://"),
        healthz_url=None if int(port) == 0 else f"http://{_reachable(str(address))}:{port}/healthz",
        manifests=_flag(words, "pod-manifest-path") or document.get("staticPodPath") or None,
        state_files=tuple(f"{root}/{name}" for name in STATE_FILES),
    )


def _parse(config: bytes | None) -> Mapping[str, Any]:
    if config is None:
        return {}
    try:
        document = yaml.safe_load(config)
    except yaml.YAMLError as error:
        raise ValueError(f"the kubelet's configuration file is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("the kubelet's configuration file is not a map")  # noqa: TRY004 - it is content, not a type
    return document


def _flag(words: tuple[str, ...], name: str) -> str | None:
    """Value of the last flag of this name, as the kubelet reads it."""
    value = None
    for i, word in enumerate(words):
        if word.startswith(f"--{name}="):
            value = word.partition("=")[2]
        elif word == f"--{name}" and i + 1 < len(words):
            value = words[i + 1]
    return value


def _reachable(address: str) -> str:
    """An address to connect to for an address that is listened on."""
    if address in {"0.0.0.0", ""}:  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    if address == "::":
        return "[::1]"
    return f"[{address}]" if ":" in address else address
