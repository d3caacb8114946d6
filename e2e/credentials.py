"""A kubelet whose credentials a program prints, as on EKS and GKE; here they are the certificate of the lab."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.changes import restart_kubelet
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node

IDENTITY = "/etc/lab/identity.conf"
GOOD_FOR = 40
"""Seconds for which credentials are good; it is minutes or an hour in clouds, which no test would wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProgram:
    """Stands for a program that makes credentials from a machine's identity in a cloud."""

    path: str
    command: str  # as the kubeconfig names it
    version: str  # of the API
    arguments: str

    def script(self, first: str = "") -> str:
        """Return the program: after a first line, it prints the certificate that the lab has made for the kubelet."""
        return f"""\
#!/bin/sh
{first}
field() {{ sed -n "s/.*$1: \\([^,}}]*\\).*/\\1/p" {IDENTITY} | base64 -d | awk '{{printf "%s\\\\n", $0}}'; }}
cat << END
{{"apiVersion": "client.authentication.k8s.io/{self.version}", "kind": "ExecCredential", "status": {{
  "expirationTimestamp": "$(date -u -d '+{GOOD_FOR} seconds' +%FT%TZ)",
  "clientCertificateData": "$(field client-certificate-data)", "clientKeyData": "$(field client-key-data)"}}}}
END
"""

    def named(self, kubeconfig: str) -> str:
        """Return the command after which a kubeconfig names the program instead of credentials."""
        api = f"apiVersion: client.authentication.k8s.io/{self.version}, interactiveMode: Never"
        told = f"{{exec: {{{api}, command: {self.command}, args: [{self.arguments}]}}}}"
        keep = f"install -D -m 600 {kubeconfig} {IDENTITY}"
        return f"{keep} && sed -i 's|^  user: .*|  user: {told}|' {kubeconfig}"


PROGRAM = CredentialProgram(
    path="/usr/local/bin/lab-credentials", command="lab-credentials", version="v1beta1", arguments="token"
)


@contextlib.contextmanager
def by_program(node: Node, first: str = "", mode: int = 0o755) -> Iterator[None]:
    """Let a kubelet have its credentials from a program, which begins with this line and has this mode."""
    kubeconfig = nodefiles.KUBELET_KUBECONFIG
    node.write(PROGRAM.path, PROGRAM.script(first), mode)
    node.exec("sh", "-ec", PROGRAM.named(kubeconfig))
    try:
        restart_kubelet(node)
        yield
    finally:
        node.exec("sh", "-ec", f"cat {IDENTITY} > {kubeconfig} && rm -r {IDENTITY} {PROGRAM.path}")
        restart_kubelet(node)
