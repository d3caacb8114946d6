"""Keys and certificates of a lab, created with openssl: one authority signs all of them."""

import base64
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import naming
from e2e.lab.process import run

_DAYS = "3650"
_EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """The lab's certificate authority and the files it signed, in one directory."""

    directory: Path

    @property
    def certificate(self) -> Path:
        """The authority's certificate."""
        return self.directory / "ca.crt"

    def create(self) -> None:
        """Create the authority and everything the control plane needs."""
        self.directory.mkdir(parents=True, exist_ok=True)
        run("openssl", "req", "-x509", *_EC_KEY, "-days", _DAYS, "-subj", "/CN=nodeupgrade-lab",
            "-keyout", self.directory / "ca.key", "-out", self.certificate)  # fmt: skip
        run(
            "openssl",
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            self.directory / "service-account.key",
        )
        names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ]
        addresses = [naming.SERVICE_ADDRESS, naming.CONTROL_PLANE_ADDRESS, "127.0.0.1"]
        alternatives = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
        self.issue("apiserver", "/CN=kube-apiserver", alternatives)
        self.issue("apiserver-kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        for user, subject in {
            "admin": "/O=system:masters/CN=lab-admin",
            "controller-manager": "/CN=system:kube-controller-manager",
            "scheduler": "/CN=system:kube-scheduler",
        }.items():
            self.issue(user, subject)
            self.kubeconfig(user)

    def issue(self, name: str, subject: str, alternatives: str | None = None) -> None:
        """Write ``NAME.key`` and ``NAME.crt`` for ``subject``, with optional subjectAltName."""
        request, key, certificate = (self.directory / f"{name}.{kind}" for kind in ("csr", "key", "crt"))
        extensions = ["-addext", f"subjectAltName={alternatives}"] if alternatives else []
        run("openssl", "req", "-new", *_EC_KEY, "-subj", subject, *extensions, "-keyout", key, "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.directory / "ca.key",
            "-CAcreateserial", "-days", _DAYS, "-copy_extensions", "copy", "-out", certificate)  # fmt: skip
        request.unlink()

    def kubeconfig(self, name: str) -> Path:
        """Write ``NAME.kubeconfig`` for the identity ``name``, self-contained, and return its path."""
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(kubeconfig_text(*(self._base64(file) for file in ("ca.crt", f"{name}.crt", f"{name}.key"))))
        path.chmod(0o600)
        return path

    def _base64(self, name: str) -> str:
        return base64.b64encode((self.directory / name).read_bytes()).decode()


def kubeconfig_text(authority: str, certificate: str, key: str) -> str:
    """Render a kubeconfig for the lab's API server from base64 PEM data."""
    server = f"https://{naming.CONTROL_PLANE_ADDRESS}:{naming.API_PORT}"
    return f"""\
apiVersion: v1
kind: Config
current-context: lab
clusters:
- name: lab
  cluster: {{server: "{server}", certificate-authority-data: {authority}}}
users:
- name: lab
  user: {{client-certificate-data: {certificate}, client-key-data: {key}}}
contexts:
- name: lab
  context: {{cluster: lab, user: lab}}
"""
