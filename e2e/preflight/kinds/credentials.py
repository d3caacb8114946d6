"""Credentials of the kubelet that a program prints."""

import contextlib
from collections.abc import Iterator

from e2e.cluster import GUARDED, Cluster, Object
from e2e.credentials import by_program
from e2e.preflight.kinds.surroundings import claim_deleted
from e2e.preflight.row import WARNED, Hazard, Row

UNAVAILABLE = "ReadinessGuardUnavailable"
WRITES = "touch /var/lib/kubelet/lab-used || exit 1"


def printed(first: str = "", mode: int = 0o755) -> Hazard:
    """Let the kubelet have its credentials from a program that begins with this line and has this mode."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with by_program(cluster.node, first, mode):
            yield {}

    return make


@contextlib.contextmanager
def claim_read(cluster: Cluster) -> Iterator[Object]:
    """Delete a claim that a pod uses, where it can be read only with what a program prints."""
    with by_program(cluster.node), claim_deleted(cluster) as more:
        yield more


ROWS = (
    Row(name="credentials/writes", shows="credentials_can_be_used", reason=UNAVAILABLE, ends=WARNED,
        make=printed(WRITES)),
    Row(name="credentials/anybodys", shows="credentials_can_be_used", reason=UNAVAILABLE, ends=WARNED,
        make=printed(mode=0o777)),
    Row(name="credentials/required", shows="required_guard_can_be_confirmed", reason=UNAVAILABLE,
        make=printed(WRITES), spec={"verify": GUARDED}),
    Row(name="credentials/claim-deleted", shows="claims_are_kept", reason="KubeletDefect", make=claim_read,
        new="1.32.3"),
)  # fmt: skip
