"""Where the lab's reader finds objects."""

import pytest

from e2e.lab.reader import path


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
