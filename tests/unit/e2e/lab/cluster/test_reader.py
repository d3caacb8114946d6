"""Where the lab's reader finds objects, and that it asks again where the API server cannot answer now."""

from pathlib import Path
from typing import ClassVar

import pytest

from e2e.lab.cluster import reader
from e2e.lab.cluster.pki import Authority
from e2e.lab.cluster.reader import Object, Reader, path
from e2e.lab.errors import LabError


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "expected"),
    [
        ("nodes", "", "", "/api/v1/nodes"),
        ("nodes", "", "node1", "/api/v1/nodes/node1"),
        ("pods", "", "", "/api/v1/pods"),
        ("pods", "web", "", "/api/v1/namespaces/web/pods"),
        ("leases", "kube-node-lease", "node1", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1"),
        ("nodeupgrades", "", "to 1.33", "/apis/nodeupgrade.dev/v1alpha1/nodeupgrades/to%201.33"),
    ],
)
def test_each_object_has_its_path(resource: str, namespace: str, name: str, expected: str) -> None:
    assert path(resource, namespace, name) == expected


class Served(Reader):
    """A reader of an API server that gives these answers."""

    answers: ClassVar[list[tuple[int, bytes]]] = []

    def _answer(self, where: str, timeout: float, method: str = "GET", body: Object | None = None) -> tuple[int, bytes]:
        return self.answers.pop(0)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    monkeypatch.setattr(reader, "AGAIN_SECONDS", 0.0)
    return Served(tmp_path, Authority(tmp_path))


def test_it_asks_a_busy_api_server_again(served: Served) -> None:
    served.answers[:] = [(429, b"storage is (re)initializing"), (500, b"etcdserver: request timed out"), (200, b"{}")]
    assert served.get("nodes", "node1") == {}
    assert served.answers == []


def test_but_not_one_that_has_answered(served: Served) -> None:
    served.answers[:] = [(404, b"no such node"), (200, b"{}")]
    with pytest.raises(LabError, match="404 to /api/v1/nodes/node1: no such node"):
        served.get("nodes", "node1")


def test_nor_for_ever(served: Served) -> None:
    served.answers[:] = [(429, b"busy")]
    with pytest.raises(LabError, match="429"):
        served.get("nodes", "node1", timeout=0)
