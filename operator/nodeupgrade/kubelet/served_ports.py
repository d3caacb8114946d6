"""The TCP ports that a kubelet serves on, by its settings."""

from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.kubelet.defaults import DEFAULTS
from nodeupgrade.kubelet.flags import FALSE
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.text import number

HEALTH = "healthzPort"
"""The one port that a kubelet does without, if another process has it; it tries again every 5 s."""
READ_ONLY_WITHOUT_CONFIGURATION = 10255
"""The default of ``readOnlyPort`` without a configuration file; with one, there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPort:
    """One port of a kubelet."""

    setting: str  # its key of the configuration
    address: str  # where it listens, as it is configured
    port: int

    @property
    def is_vital(self) -> bool:
        """Whether the kubelet exits without it."""
        return self.setting != HEALTH


def served_ports(settings: Configured) -> tuple[ServedPort, ...]:
    """Return the ports that a kubelet with these settings serves on; none of an invalid number."""
    return tuple(_served(settings))


def _served(settings: Configured) -> Iterator[ServedPort]:
    if settings.text("enable-server", "enableServer", "true") not in FALSE:
        read_only = 0 if settings.flag("config") else READ_ONLY_WITHOUT_CONFIGURATION
        address = settings.text("address", "address", str(DEFAULTS["address"][0]))
        yield from _port(settings, "port", "port", address, DEFAULTS["port"][0])
        yield from _port(settings, "read-only-port", "readOnlyPort", address, read_only)
    address = settings.text("healthz-bind-address", "healthzBindAddress", str(DEFAULTS["healthzBindAddress"][0]))
    yield from _port(settings, "healthz-port", HEALTH, address, DEFAULTS[HEALTH][0])


def _port(settings: Configured, flag: str, key: str, address: str, default: int) -> Iterator[ServedPort]:
    port = number(settings.text(flag, key, str(default)))
    if port is not None and 0 < port < 1 << 16:
        yield ServedPort(setting=key, address=address, port=port)
