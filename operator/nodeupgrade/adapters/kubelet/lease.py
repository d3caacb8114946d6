"""The Lease of one node, read and written with its kubelet's credentials."""

import http.client
import json
from dataclasses import dataclass
from urllib.parse import quote

from nodeupgrade.adapters.kubelet.identity import ask
from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import shorten
from nodeupgrade.kubelet.credentials import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLease:
    """Implements ports.lease.LeaseApi."""

    credentials: Credentials
    node: str

    def read(self) -> Json:
        return self._ask("GET", None)

    def replace(self, lease: Json) -> None:
        self._ask("PUT", lease)

    def _ask(self, verb: str, body: Json | None) -> Json:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{quote(self.node)}"
        answer = ask(self.credentials, verb, path, body)
        if answer.status != http.client.OK:
            raise OSError(f"{verb} of the Lease ended with status {answer.status}: {shorten(answer.text, 200)!r}")
        lease: Json = json.loads(answer.text)
        return lease
