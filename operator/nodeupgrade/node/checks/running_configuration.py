"""Compare a kubelet's configuration on disk with the one that it reports at ``/configz``."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import shorten
from nodeupgrade.kubelet.defaults import DEFAULTS
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import resource_amount
from nodeupgrade.text import parse_nanoseconds, trimmed

_UNITS = ("s", "m", "h")
"""How each duration ends that is not a number, too."""

_OF_THE_FILE = frozenset({"kind", "apiVersion"})
_SECRET = frozenset({"staticPodURLHeader"})
_LOGGING = "logging"
_REWRITTEN_AT_START = frozenset({"kubeReserved.cpu", "systemReserved.cpu", "tlsCertFile", "tlsPrivateKeyFile"})
"""The kubelet may change these itself after it has read them."""

_ZERO_IS_UNSET = frozenset(
    {
        "port", "registryBurst", "eventBurst", "kubeAPIBurst", "maxPods", "maxOpenFiles", "nodeLeaseDurationSeconds",
        "logging.flushFrequency",
    }
)  # fmt: skip

_FLAGS_BY_OTHER_NAMES: Mapping[str, str] = {
    "pod-manifest-path": "staticPodPath",
    "manifest-url": "staticPodURL",
    "manifest-url-header": "staticPodURLHeader",
    "client-ca-file": "authentication",
    "anonymous-auth": "authentication",
    "authentication-token-webhook": "authentication",
    "authentication-token-webhook-cache-ttl": "authentication",
    "authorization-mode": "authorization",
    "authorization-webhook-cache-authorized-ttl": "authorization",
    "authorization-webhook-cache-unauthorized-ttl": "authorization",
    "reserved-cpus": "reservedSystemCPUs",
    "image-gc-high-threshold": "imageGCHighThresholdPercent",
    "image-gc-low-threshold": "imageGCLowThresholdPercent",
    "minimum-image-ttl-duration": "imageMinimumGCAge",
    "registry-qps": "registryPullQPS",
    "event-qps": "eventRecordQPS",
    "rotate-server-certificates": "serverTLSBootstrap",
    "v": "logging",
    "vmodule": "logging",
    "logging-format": "logging",
}


def compare(settings: Configured, running: Json) -> tuple[list[str], list[str]]:
    """Compare the configuration on disk with the one that a kubelet reports, except for keys that flags set.

    Returns:
        The keys that certainly differ, each with both values, for messages; and those that cannot be compared: on disk
        but not reported, or reported, not on disk and not at a known default.
    """
    by_flags = _keys_of_flags(settings)
    different: list[str] = []
    unclear: list[str] = []
    disk = {key: value for key, value in settings.document.items() if key not in by_flags}
    now = {key: value for key, value in running.items() if key not in by_flags}
    for path, written, shown in _pairs("", disk, now):
        if path in _OF_THE_FILE or path in _gates_of_flags(settings):
            continue
        match _is_same(path, written, shown):
            case True:
                pass
            case None:
                unclear.append(path)
            case False:
                before, after = ("…", "…") if path.partition(".")[0] in _SECRET else (_short(written), _short(shown))
                different.append(f"{path} is {before} on disk and {after} in the running kubelet")
    return different, unclear


def _pairs(path: str, disk: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted({*disk, *now}):
        here = f"{path}.{key}" if path else key
        written, shown = disk.get(key), now.get(key)
        given = [value for value in (written, shown) if value is not None]
        if given and all(isinstance(value, Mapping) for value in given):
            yield from _pairs(here, written or {}, shown or {})
        else:
            yield here, written, shown


def _is_same(path: str, written: Any, shown: Any) -> bool | None:
    """Report whether a value on disk is the running one; ``None`` if that cannot be determined."""
    if _normal(written) == _normal(shown):
        return True
    if _is_unset(path, written):
        return _is_default(path, shown) or None
    if _is_empty(written) and _is_empty(shown):
        return True
    if shown is None or path in _REWRITTEN_AT_START or (_is_empty(written) and written is not False):
        return None
    return isinstance(written, str) and isinstance(shown, str) and shown.endswith(f"/{written}")


def _is_default(path: str, shown: Any) -> bool:
    """Report whether this is the value of a key that is not set."""
    if path.startswith(f"{_LOGGING}.") or shown is None:
        return True
    defaults = DEFAULTS.get(path)
    if defaults is None:
        return _is_empty(shown)
    return any(_normal(default) == _normal(shown) for default in defaults)


def _is_empty(value: Any) -> bool:
    """Report whether a kubelet may omit a value from the configuration that it reports."""
    return value in (None, False, 0, "", {}, []) or _normal(value) == ("time", 0)


def _is_unset(path: str, value: Any) -> bool:
    """Report whether a kubelet treats a value on disk as unset; 0 and false are often values in their own right."""
    if isinstance(value, bool | int | float):
        return value is not False and value == 0 and path in _ZERO_IS_UNSET
    return _is_empty(value)


def _normal(value: Any) -> Any:
    """Normalise a value, so that equal durations, quantities and numbers compare equal however they are written."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return ("amount", Fraction(str(value)))
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _normal(item) for key, item in value.items()}
    text = str(value)
    with suppress(ValueError):
        return ("time", parse_nanoseconds(text if text.endswith(_UNITS) else ""))
    try:
        return ("amount", resource_amount(text))
    except ValueError:
        return text


def _keys_of_flags(settings: Configured) -> frozenset[str]:
    """Return the top-level keys of the configuration that flags set."""
    by_name = {key.lower(): key for key in {*settings.document, *(path.partition(".")[0] for path in DEFAULTS)}}
    given = settings.given() - {"feature-gates"}
    plain = {by_name[name] for flag in given if (name := flag.replace("-", "")) in by_name}
    return frozenset({*plain, *(key for flag, key in _FLAGS_BY_OTHER_NAMES.items() if flag in given)})


def _gates_of_flags(settings: Configured) -> frozenset[str]:
    pairs = (pair for text in settings.flags("feature-gates") for pair in text.split(","))
    return frozenset(f"featureGates.{trimmed(pair.partition('=')[0])}" for pair in pairs)


def _short(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return shorten(text, 60)
