"""Where a kubelet's files and endpoints are, read from its command line and configuration files. Flags win."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.kubelet.built_in_runtime import CRI_DOCKERD, DOCKER, DOCKER_ENDPOINT, uses_built_in_runtime
from nodeupgrade.kubelet.defaults import DEFAULTS
from nodeupgrade.kubelet.feature_gates import RESIZE_GATE, is_on
from nodeupgrade.kubelet.settings import Configured, configured
from nodeupgrade.text import number, trimmed

DEFAULT_ROOT = "/var/lib/kubelet"
DEFAULT_CERTIFICATES = "/var/lib/kubelet/pki"
DEFAULT_ENDPOINT = "/run/containerd/containerd.sock"
DEFAULT_CGROUP_DRIVER = "cgroupfs"

POD_LOGS = PurePosixPath("/var/log/pods")
"""By default; kubelets from 1.30 on may have another place."""
CONTAINER_LOGS = PurePosixPath("/var/log/containers")
"""Where kubelets link to the log of each container."""

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
CLAIM_STATE = "dra_manager_state"
DEVICE_STATE = "device-plugins/kubelet_internal_checkpoint"
STATUS_STATE = "pod_status_manager_state"
RESIZE_STATES = ("allocated_pods_state", "actuated_pods_state")

READ_AT_START = (CPU_STATE, MEMORY_STATE, CLAIM_STATE, DEVICE_STATE, STATUS_STATE, *RESIZE_STATES)
"""The state files that a starting kubelet may read, below its root directory (`state_files.formats` says which do)."""


SOCKETS = ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock")
"""The sockets that a kubelet makes, below its root directory, where pods may write. Without them it exits.

It makes the second one in place of anything but a directory (``util.CreateListener``), but the first one, in 1.31.0 and
from 1.33 on, only where nothing or a socket lies, and follows all links beside it (``CleanupPluginDirectory``).
"""


def above_logs(logs: PurePosixPath) -> PurePosixPath:
    """Return the directory from which on pods may exchange what leads to all logs: collectors mount /var/log."""
    shared = POD_LOGS.parent
    return shared if shared in logs.parents else logs.parent


def path_of(name: str, root: str) -> PurePosixPath:
    """Return where a kubelet with this root directory has one of READ_AT_START or SOCKETS.

    What concerns device plugins is below the default root directory, whatever the kubelet's (``DevicePluginPath``).
    """
    return PurePosixPath(DEFAULT_ROOT if name.startswith("device-plugins/") else root, name)


def state_name(path: str) -> str:
    """Return the name in READ_AT_START of a state file by its absolute path."""
    return next(name for name in READ_AT_START if path.endswith(f"/{name}"))


def state_place(path: str) -> PurePosixPath:
    """Return where a new state file is made: in the kubelet's root directory, since pods may write where it will be."""
    return PurePosixPath(path.removesuffix(state_name(path))) / PurePosixPath(path).name


def sockets_beside(state_files: Iterable[str]) -> tuple[PurePosixPath, ...]:
    """Return SOCKETS of the kubelet that has these state files."""
    names = {path: state_name(path) for path in state_files}
    roots = {path.removesuffix(name) for path, name in names.items() if name != DEVICE_STATE}
    return tuple(path_of(name, root) for root in sorted(roots) for name in SOCKETS)


def log_directories(logs: str) -> tuple[PurePosixPath, ...]:
    """Return the directories that a starting kubelet makes where pods that collect logs may write.

    Without the first one it exits from 1.19 on, without ``logs``, that of all pods, from 1.30 on. It makes neither in
    place of a file, nor of a link that leads nowhere (``initializeModules``, ``setupDataDirs``).
    """
    return (CONTAINER_LOGS, PurePosixPath(logs))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLayout:
    """The paths, endpoints and settings of one node's kubelet."""

    endpoint: str  # path of the runtime's socket
    healthz_url: str | None  # URL of the kubelet's health check; None if it is disabled
    manifests: str | None  # directory of static pods; None if there is none
    gates: Mapping[str, bool] = field(default_factory=dict)  # feature gates that are set explicitly
    cgroup_driver: str = DEFAULT_CGROUP_DRIVER  # the configured cgroup driver
    # whether it may refuse to start on cgroup v1, as kubelets from 1.35 on do by default
    fails_on_cgroup_v1: bool = True
    kubeconfig: str | None = None  # path of the kubelet's kubeconfig, if it has one
    settings: Configured = Configured()  # the complete configuration
    root: str = DEFAULT_ROOT  # the kubelet's directory of state and pods
    logs: str = str(POD_LOGS)  # where the runtime writes the logs of its pods
    built_in: bool = False  # whether it talks to Docker itself, by its dockershim; the endpoint is then Docker's
    runtime: str = ""  # name of what its runtime is reached through; empty if it was not asked for

    @property
    def resizes_in_place(self) -> bool:
        """Whether the feature gate InPlacePodVerticalScaling is set; it is off by default up to 1.32."""
        return is_on(self.gates, RESIZE_GATE, by_default=False)


_PATHS: tuple[tuple[str, str], ...] = (
    ("config", ""),
    ("config-dir", ""),
    ("root-dir", ""),
    ("cert-dir", ""),
    ("kubeconfig", ""),
    ("bootstrap-kubeconfig", ""),
    ("image-credential-provider-config", ""),
    ("cloud-config", ""),
    ("pod-manifest-path", "staticPodPath"),
)
"""Settings whose files are looked at, by flag and by key of the configuration file."""


def require_absolute_paths(settings: Configured) -> None:
    """Require that every path is absolute.

    A kubelet resolves those of flags from its working directory, and those of its configuration from that file's.

    Raises:
        ValueError: a path is relative.
    """
    for flag, key in _PATHS:
        path = settings.text(flag, key) if key else settings.flag(flag) or ""
        if path and not path.startswith("/"):
            name = key if key and settings.flag(flag) is None else f"--{flag}"
            raise ValueError(f"{name} is {path}, which is a relative path; make it absolute, and restart the kubelet")


def config_directory(words: tuple[str, ...]) -> str | None:
    """Return the drop-in directory for configuration files that a command line names, if any (kubelet 1.28+)."""
    return Configured(words=words).flag("config-dir") or None


def is_drop_in(name: str) -> bool:
    """Report whether a kubelet reads a file of this name in its drop-in directory; it reads them in order of name."""
    return name.endswith(".conf")


def read_layout(words: tuple[str, ...], *configs: bytes, runtime: str = "") -> KubeletLayout:
    """Read the layout of a kubelet from its arguments, and from its configuration file and the drop-ins in order.

    Raises:
        ValueError: a configuration file is not a YAML map, a value is invalid, or a path is relative.
    """
    settings = configured(words, *configs)
    require_absolute_paths(settings)
    root = settings.flag("root-dir") or DEFAULT_ROOT
    if built_in := uses_built_in_runtime(settings, runtime):
        endpoint = settings.flag("docker-endpoint") or DOCKER_ENDPOINT
    else:
        endpoint = settings.text("container-runtime-endpoint", "containerRuntimeEndpoint", DEFAULT_ENDPOINT)
    return KubeletLayout(
        root=root,
        logs=str(settings.document.get("podLogsDir") or POD_LOGS),
        settings=settings,
        endpoint=_socket(endpoint),
        built_in=built_in,
        runtime=CRI_DOCKERD if runtime == DOCKER and not built_in else runtime,
        healthz_url=_healthz(
            settings.text("healthz-bind-address", "healthzBindAddress", str(DEFAULTS["healthzBindAddress"][0])),
            settings.text("healthz-port", "healthzPort", str(DEFAULTS["healthzPort"][0])),
        ),
        manifests=settings.text("pod-manifest-path", "staticPodPath") or None,
        gates=_gates(settings),
        cgroup_driver=settings.text("cgroup-driver", "cgroupDriver", DEFAULT_CGROUP_DRIVER),
        fails_on_cgroup_v1=settings.document.get("failCgroupV1") is not False,
        kubeconfig=settings.flag("kubeconfig") or None,
    )


def _gates(settings: Configured) -> dict[str, bool]:
    """Merge the feature gates of the configuration file and of the flags; each flag overrides one gate."""
    written = settings.document.get("featureGates")
    if written is not None and not isinstance(written, dict):
        raise ValueError(f"the kubelet's featureGates are not a map: {written!r}")
    gates = {str(name): value is True for name, value in (written or {}).items()}
    for pair in (pair for value in settings.flags("feature-gates") for pair in value.split(",")):
        name, equals, value = trimmed(pair).partition("=")
        if equals:
            gates[name] = value.lower() in {"true", "t", "1"}
    return gates


def _socket(endpoint: str) -> str:
    path = endpoint.removeprefix("unix:")
    if not path.startswith("/"):
        raise ValueError(f"the runtime's endpoint {endpoint} is not the path of a socket")
    return f"/{path.lstrip('/')}"


def _healthz(address: str, port: str) -> str | None:
    if (found := number(port)) is None:
        raise ValueError(f"the kubelet's healthz port {port} is not a number")
    return None if found == 0 else f"http://{_reachable(address)}:{found}/healthz"


def _reachable(address: str) -> str:
    """Return the address to connect to for a listen address."""
    if address in {"0.0.0.0", ""}:  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    if address == "::":
        return "[::1]"
    return f"[{address}]" if ":" in address else address
