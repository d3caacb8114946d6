"""Read the hashes that a runtime stores, as `crictl` prints them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from nodeupgrade.cli.inputs.pod_stream import read_pods
from nodeupgrade.cli.program import CannotError

_HASH = "io.kubernetes.container.hash"
_RUNNING = "CONTAINER_RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHash:
    """One running container.

    Attributes:
        stored: the hash; empty if there is none.
    """

    namespace: str
    pod: str
    pod_uid: str
    container: str
    stored: str

    @property
    def label(self) -> str:
        """``namespace/pod``, as shown to people."""
        return f"{self.namespace}/{self.pod}"


def read_stored(stream: TextIO) -> tuple[StoredHash, ...]:
    """Read the running containers from the output of `crictl inspect` or `crictl ps -o json`.

    Raises:
        CannotError: it is something else, or has no running container.
    """
    found = tuple(each for printed in read_pods(stream) for each in _containers(printed))
    if not found:
        raise CannotError(
            "cannot verify anything because there is no running container in the input; give what this prints: "
            "crictl inspect $(crictl ps --quiet)"
        )
    return found


def _containers(printed: object) -> Iterator[StoredHash]:
    document = printed if isinstance(printed, Mapping) else {}
    listed = document.get("containers")
    for each in listed if isinstance(listed, list) else [document.get("status")]:
        container: Mapping[str, Any] = each if isinstance(each, Mapping) else {}
        labels, annotations = _texts(container.get("labels")), _texts(container.get("annotations"))
        if "io.kubernetes.container.name" not in labels:
            raise CannotError(
                "cannot verify anything because there is something else than containers in the input; give what this "
                "prints: crictl inspect $(crictl ps --quiet)"
            )
        if container.get("state") == _RUNNING:
            yield StoredHash(
                namespace=labels.get("io.kubernetes.pod.namespace", ""),
                pod=labels.get("io.kubernetes.pod.name", ""),
                pod_uid=labels.get("io.kubernetes.pod.uid", ""),
                container=labels["io.kubernetes.container.name"],
                stored=annotations.get(_HASH, ""),
            )


def _texts(given: object) -> dict[str, str]:
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}
