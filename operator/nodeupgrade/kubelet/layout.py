"""What a kubelet's command line and configuration file say about where things are. Flags win over the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.kubelet.settings import UNCONFIGURED, Configured, configured

DEFAULT_ROOT = "/var/lib/kubelet"
DEFAULT_ENDPOINT = "/run/containerd/containerd.sock"
DEFAULT_HEALTHZ_ADDRESS = "127.0.0.1"
DEFAULT_HEALTHZ_PORT = "10248"
DEFAULT_CGROUP_DRIVER = "cgroupfs"

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
        gates: feature gates that are set.
        cgroup_driver: the one it is configured to use.
        fails_on_cgroup_v1: whether it may end at its start on cgroup v1, as kubelets do from 1.35 unless told not to.
        kubeconfig: the kubelet's credentials for the API server, if it has any.
        settings: everything else that it is configured to do.
    """

    endpoint: str
    healthz_url: str | None
    manifests: str | None
    state_files: tuple[str, ...]
    gates: Mapping[str, bool] = field(default_factory=dict)
    cgroup_driver: str = DEFAULT_CGROUP_DRIVER
    fails_on_cgroup_v1: bool = True
    kubeconfig: str | None = None
    settings: Configured = UNCONFIGURED

    @property
    def resizes_in_place(self) -> bool:
        """Whether the gate InPlacePodVerticalScaling was turned on: it is off by default up to 1.32."""
        return self.gates.get("InPlacePodVerticalScaling", self.gates.get("AllAlpha", False))


def config_path(words: tuple[str, ...]) -> str | None:
    """The configuration file that a command line names."""
    return Configured(words=words).flag("config") or None


def config_directory(words: tuple[str, ...]) -> str | None:
    """The directory of further configuration files that a command line names (kubelet 1.28+)."""
    return Configured(words=words).flag("config-dir") or None


def is_drop_in(name: str) -> bool:
    """Whether a kubelet reads a file of this name in its configuration directory, in the order of names."""
    return name.endswith(".conf")


def read_layout(words: tuple[str, ...], *configs: bytes) -> KubeletLayout:
    """Read the layout of a kubelet.

    Args:
        words: its arguments, without the program.
        configs: content of its configuration file, if it has one, and of further ones that override it.

    Raises:
        ValueError: a configuration file is not a YAML map, or a value is not what it should be.
    """
    settings = configured(words, *configs)
    root = settings.flag("root-dir") or DEFAULT_ROOT
    return KubeletLayout(
        settings=settings,
        endpoint=_socket(settings.text("container-runtime-endpoint", "containerRuntimeEndpoint", DEFAULT_ENDPOINT)),
        healthz_url=_healthz(
            settings.text("healthz-bind-address", "healthzBindAddress", DEFAULT_HEALTHZ_ADDRESS),
            settings.text("healthz-port", "healthzPort", DEFAULT_HEALTHZ_PORT),
        ),
        manifests=settings.text("pod-manifest-path", "staticPodPath") or None,
        state_files=tuple(f"{root}/{name}" for name in STATE_FILES),
        gates=_gates(settings),
        cgroup_driver=settings.text("cgroup-driver", "cgroupDriver", DEFAULT_CGROUP_DRIVER),
        fails_on_cgroup_v1=settings.document.get("failCgroupV1") is not False,
        kubeconfig=settings.flag("kubeconfig") or None,
    )


def _gates(settings: Configured) -> dict[str, bool]:
    """Gates of the configuration file, and those of the flags, which win one by one."""
    written = settings.document.get("featureGates")
    if written is not None and not isinstance(written, dict):
        raise ValueError(f"the kubelet's featureGates are not a map: {written!r}")
    gates = {str(name): value is True for name, value in (written or {}).items()}
    for pair in (pair for value in settings.flags("feature-gates") for pair in value.split(",")):
        name, equals, value = pair.strip().partition("=")
        if equals:
            gates[name] = value.lower() in {"true", "t", "1"}
    return gates


def _socket(endpoint: str) -> str:
    path = endpoint.removeprefix("unix:")
    if not path.startswith("/"):
        raise ValueError(f"the runtime's endpoint {endpoint} is not the path of a socket")
    return f"/{path.lstrip('/')}"


def _healthz(address: str, port: str) -> str | None:
    if not port.isdecimal():
        raise ValueError(f"the kubelet's healthz port {port} is not a number")
    return None if int(port) == 0 else f"http://{_reachable(address)}:{int(port)}/healthz"


def _reachable(address: str) -> str:
    """An address to connect to for an address that is listened on."""
    if address in {"0.0.0.0", ""}:  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    if address == "::":
        return "[::1]"
    return f"[{address}]" if ":" in address else address
