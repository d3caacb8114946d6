"""Send requests to the API server as a node's own kubelet does. Changes nothing."""

import json

from e2e.lab import naming
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node

DENIED = "readiness-guard.nodeupgrade.dev"
"""The policy's name, which every denial names."""

_CERTIFICATE, _KEY = "/etc/lab/kubelet.crt", "/etc/lab/kubelet.key"


def objection_to_unready(lab: Lab, node: Node, pod: str) -> str:
    """Try in a dry run, with the node's credentials, to report the pod ``namespace/name`` unready.

    Returns:
        The API server's objection; empty if it would accept the report.

    Raises:
        LabError: it does not answer.
    """
    for suffix, file in (("crt", _CERTIFICATE), ("key", _KEY)):
        node.put(lab.kubeconfig.with_name(f"kubelet-{node.name}.{suffix}"), file, 0o600)
    namespace, _, name = pod.partition("/")
    server = f"https://{naming.CONTROL_PLANE_ADDRESS}:{naming.API_PORT}"
    asked = node.exec(
        "curl", "--silent", "--show-error", "--max-time", "20", "--cacert", nodefiles.AUTHORITY,
        "--cert", _CERTIFICATE, "--key", _KEY, "--request", "PATCH",
        "--header", "Content-Type: application/strategic-merge-patch+json",
        "--data", json.dumps({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        f"{server}/api/v1/namespaces/{namespace}/pods/{name}/status?dryRun=All",
    )  # fmt: skip
    answer = json.loads(asked.stdout)
    match answer["kind"]:
        case "Pod":
            return ""
        case "Status":
            return str(answer["message"])
        case kind:
            raise LabError(f"the API server answered with a {kind}")
