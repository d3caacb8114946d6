"""Static pods: the defaults that a kubelet applies to a manifest before hashing, and whether UIDs may stay."""

import re
from collections.abc import Mapping

from . import changes
from .changes import supported_minor
from .errors import Misfit, UnhashableContainer
from .go import values
from .kubelet_version import KubeletVersion

_TAG_OR_DIGEST = re.compile(r"(?P<repository>.*?)(?::(?P<tag>[\w][\w.-]*))?(?P<digest>@.+)?", re.ASCII)
_HOOKS = frozenset({"postStart", "preStop"})
_RESIZABLE = ("cpu", "memory")


def static_uid_may_stay(from_: KubeletVersion | str, to: KubeletVersion | str) -> bool:
    """Report whether a static pod without a UID in its manifest may keep its UID; nearly every minor changes it.

    Raises:
        UnsupportedKubelet: the tables do not cover one of the kubelets.
    """
    low, high = sorted((supported_minor(from_), supported_minor(to)))
    return low == high or (low, high) in changes.SAME_POD_TYPES


def default_static_container(
    container: Mapping[str, object], *, host_network: bool, in_place_resize: bool = False
) -> dict[str, object]:
    """Return a manifest's container with the defaults that a kubelet applies before hashing.

    Follows `SetDefaults_*` in `pkg/apis/core/v1`. The result is for `hash_manifest_container`, which drops fields that
    the kubelet's minor does not know.

    Args:
        container: the container as written in the manifest; it is not modified.
        host_network: whether the pod sets `hostNetwork`.
        in_place_resize: whether this is one of `containers` and the kubelet's gate InPlacePodVerticalScaling is on.
            Kubelets 1.27 to 1.30 then add a resize policy, which others do not know or do not hash.

    Raises:
        UnhashableContainer: a field that should be a list or a map is not one.
    """
    try:
        done = _defaulted(container, host_network=host_network)
        return {**done, "resizePolicy": _resize_policy(done)} if in_place_resize else done
    except Misfit as error:
        name = container.get("name")
        raise UnhashableContainer(name if isinstance(name, str) else "", error.path, error.reason) from None


def _defaulted(container: Mapping[str, object], *, host_network: bool) -> dict[str, object]:
    done = {key: value for key, value in container.items() if value is not None}
    done["imagePullPolicy"] = done.get("imagePullPolicy") or _pull_policy(values.text(done.get("image", "")))
    done["terminationMessagePath"] = done.get("terminationMessagePath") or "/dev/termination-log"
    done["terminationMessagePolicy"] = done.get("terminationMessagePolicy") or "File"
    if "ports" in done:
        done["ports"] = [_port(each, host_network=host_network) for each in values.sequence(done["ports"])]
    if "env" in done:
        done["env"] = [_env(each) for each in values.sequence(done["env"])]
    if "resources" in done:
        done["resources"] = _resources(done["resources"])
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in done:
            done[key] = _probe(done[key])
    if "lifecycle" in done:
        lifecycle = values.mapping(done["lifecycle"])
        done["lifecycle"] = {
            key: _handler(value) if key in _HOOKS else value for key, value in lifecycle.items() if value is not None
        }
    return done


def _pull_policy(image: str) -> str:
    match = _TAG_OR_DIGEST.fullmatch(image)
    tag, digest = (match["tag"], match["digest"]) if match else (None, None)
    return "Always" if tag == "latest" or (tag is None and digest is None) else "IfNotPresent"


def _port(port: object, *, host_network: bool) -> dict[str, object]:
    done = dict(values.mapping(port))
    done["protocol"] = done.get("protocol") or "TCP"
    if host_network and not done.get("hostPort"):
        done["hostPort"] = done.get("containerPort")
    return done


def _env(variable: object) -> dict[str, object]:
    done = dict(values.mapping(variable))
    source = done.get("valueFrom")
    reference = source.get("fieldRef") if isinstance(source, Mapping) else None
    if isinstance(source, Mapping) and isinstance(reference, Mapping):
        api_version = reference.get("apiVersion") or "v1"
        done["valueFrom"] = {**source, "fieldRef": {**reference, "apiVersion": api_version}}
    return done


def _resources(resources: object) -> dict[str, object]:
    done = dict(values.mapping(resources))
    limits = done.get("limits")
    if limits is not None:
        done["requests"] = {**values.mapping(limits), **values.mapping(done.get("requests") or {})}
    return done


def _resize_policy(container: Mapping[str, object]) -> list[object]:
    """Return the manifest's resize policies, plus NotRequired for requests without one."""
    policies = [*values.sequence(container.get("resizePolicy") or ())]
    requests = values.mapping(values.mapping(container.get("resources") or {}).get("requests") or {})
    known = {values.mapping(each).get("resourceName") for each in policies}
    missing = (name for name in _RESIZABLE if name in requests and name not in known)
    return [*policies, *({"resourceName": name, "restartPolicy": "NotRequired"} for name in missing)]


def _probe(probe: object) -> dict[str, object]:
    done = _handler(probe)
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        done[key] = done.get(key) or value
    grpc = done.get("grpc")
    if isinstance(grpc, Mapping) and grpc.get("service") is None:
        done["grpc"] = {**grpc, "service": ""}
    return done


def _handler(handler: object) -> dict[str, object]:
    done = dict(values.mapping(handler))
    http = done.get("httpGet")
    if isinstance(http, Mapping):
        done["httpGet"] = {**http, "path": http.get("path") or "/", "scheme": http.get("scheme") or "HTTP"}
    return done
