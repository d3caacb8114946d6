"""Collect what the next start of the kubelet would read, and what the running one says of itself; touch nothing."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import PurePosixPath

from nodeupgrade.api.json import Json
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node import fence
from nodeupgrade.domain.node.checks.drift import ReadAtStart, Start, Was
from nodeupgrade.engine.node.facts.gather import RunningKubelet, config_files
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.kubelet.layout import KubeletLayout, config_directory
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.ports.kubelet import ServingEndpoint

UNIT_DIRECTORIES = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
"""Where people and packages put drop-ins. Those in /run are systemd's own and ours: it makes them anew at any time."""
PUT_BY_SYSTEMD = ("/run/", "/etc/systemd/system.control/")
"""Generated, or changed by ``systemctl set-property``, which takes effect at once."""
DEFAULT_CERTIFICATES = "/var/lib/kubelet/pki"
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
CLOCK_TOLERANCE = 2.0
"""Seconds by which systemd's record of a start may differ from what the kernel says, for it knows whole seconds."""
NAMED_BY_FLAGS = ("image-credential-provider-config", "cloud-config")


def look(host: HostView, running: RunningKubelet, layout: KubeletLayout, node: Json) -> Start:
    """Look at the running kubelet and at everything that a start reads.

    Raises:
        Transient: the kubelet is gone.
        StepFailed: something of it cannot be read.
    """
    unit = running.unit
    shown, why_not = _configz(host, layout.settings, node)
    read = tuple(_read(host, running, layout.settings))
    started = _started(host, running)
    newer = [file for file in read if file.was is Was.IDENTITY and file.changed is not None and file.changed > started]
    return Start(
        started=started,
        words=host.kubelet.arguments(unit.main_pid),
        environment=host.kubelet.environment(unit.main_pid),
        by_default=host.services.environment(),
        unit=unit,
        environment_files={path: host.files.read(PurePosixPath(path)) for path, _ in unit.environment_files},
        settings=layout.settings,
        running=shown,
        why_not_asked=why_not,
        read=read,
        known_to_server=_is_known(host, layout, node) if newer else None,
    )


def _started(host: HostView, running: RunningKubelet) -> float:
    """The earlier of what the kernel and systemd say, which differ where the clock was set since."""
    by_kernel, by_systemd = host.kubelet.started(running.unit.main_pid), running.unit.started_at
    if by_systemd is None or abs(by_kernel - by_systemd) <= CLOCK_TOLERANCE:
        return by_kernel
    return min(by_kernel, by_systemd)


def _read(host: HostView, running: RunningKubelet, settings: Configured) -> Iterator[ReadAtStart]:
    def at(path: PurePosixPath | str, was: Was) -> ReadAtStart:
        return ReadAtStart(path=str(path), was=was, changed=host.files.changed(PurePosixPath(path)))

    unit = running.unit
    for path in config_files(host.files, running.words):
        yield at(path, Was.CONFIGURATION)
    if (directory := config_directory(running.words)) is not None:
        below = {parent for path in host.files.walk(PurePosixPath(directory)) for parent in path.parents}
        inside = {path for path in below if PurePosixPath(directory) in path.parents}
        for place in (PurePosixPath(directory), *sorted(inside)):
            yield at(place, Was.CONFIGURATION)
    for name, _ in unit.environment_files:
        yield at(name, Was.ENVIRONMENT)
    for file in (unit.fragment_path, *unit.drop_ins):
        if file and file != str(fence.drop_in(unit.name)) and not file.startswith(PUT_BY_SYSTEMD):
            yield at(file, Was.UNIT)
    for above in UNIT_DIRECTORIES:
        yield at(f"{above}/{unit.name}.d", Was.DROP_INS)
    if unit.program and unit.program != str(running.program):
        yield at(unit.program, Was.UNIT)  # a link to it, or a script
    for flag in ("kubeconfig", "bootstrap-kubeconfig"):
        if named := settings.flag(flag):
            yield at(named, Was.IDENTITY)
    for flag in NAMED_BY_FLAGS:
        if named := settings.flag(flag):
            yield at(named, Was.OTHER)


def _configz(host: HostView, settings: Configured, node: Json) -> tuple[Json | None, str]:
    """What the kubelet says of its configuration, or why it does not."""
    status = node.get("status") or {}
    addresses = status.get("addresses") or ()
    address = next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "")
    port = int(((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0)
    certificates = b"\n".join(_certificates(host, settings))
    if not address or not port or not certificates:
        return None, "the node does not say where it serves" if certificates else "it has no certificate on disk"
    try:
        answer = host.kubelet.configz(ServingEndpoint(address=address, port=port, certificates=certificates))
        if answer.status != HTTPStatus.OK:
            return None, f"HTTP {answer.status}"
        shown = json.loads(answer.text)["kubeletconfig"]
    except (Transient, StepFailed) as error:
        return None, str(error)
    except (ValueError, KeyError, TypeError):
        return None, "its answer is not understood"
    return (shown, "") if isinstance(shown, dict) else (None, "its answer is not understood")


def _certificates(host: HostView, settings: Configured) -> Iterator[bytes]:
    directory = settings.flag("cert-dir") or DEFAULT_CERTIFICATES
    named = settings.text("tls-cert-file", "tlsCertFile")
    for path in (named, f"{directory}/kubelet-server-current.pem", f"{directory}/kubelet.crt"):
        if path.startswith("/") and (data := host.files.read(PurePosixPath(path))) is not None:
            yield data


def _is_known(host: HostView, layout: KubeletLayout, node: Json) -> bool | None:
    """Whether the API server shows this very node to who comes with the kubeconfig; ``None`` if it cannot be asked."""
    metadata = node.get("metadata") or {}
    if layout.kubeconfig is None or not metadata.get("uid"):
        return None
    try:
        answer = host.as_kubelet(PurePosixPath(layout.kubeconfig)).read(f"/api/v1/nodes/{metadata.get('name')}")
        if answer.status in REFUSED:
            return False
        shown = json.loads(answer.text)
        return bool(shown["metadata"]["uid"] == metadata["uid"])
    except (Transient, StepFailed, ValueError, KeyError, TypeError):
        return None
