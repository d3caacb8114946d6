"""The kubeconfig of a server that tests run."""

from pathlib import Path

_TEXT = """
apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: "{server}"}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
users: [{{name: a, user: {{token: x}}}}]
current-context: a
"""


def write_kubeconfig(directory: Path, server: str) -> Path:
    """Write a kubeconfig for the API server at an address, and return its path."""
    path = directory / "config"
    path.write_text(_TEXT.format(server=server), encoding="utf-8")
    return path
