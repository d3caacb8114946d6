"""Check of the kubelet's identity: the kubeconfig and the client certificate that it would start with."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Identity, Readiness
from nodeupgrade.kubelet.credentials.certificates import validity

LEAST = timedelta(hours=1)
SHARE = 20
"""Of a short life, this part is enough: kubelets renew certificates when a tenth of it is left."""


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.CERTIFICATE_UNUSABLE,))
def certificate_is_valid(facts: Readiness) -> Iterator[Finding]:
    """The kubelet's kubeconfig is there, and its client certificate, if it has one, is valid for another hour."""
    identity = facts.host.identity
    if identity is not None and (problem := identity.problem or _problem(identity)):
        detail = f"a kubelet that starts could not speak to the API server: {problem}; renew the kubelet's credentials"
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


def _problem(identity: Identity) -> str:
    """Return what is wrong with the certificates; empty if there is none, or one of them is good."""
    problems: list[str] = []
    for path, data in identity.certificates.items():
        try:
            first, last = validity(data)
        except ValueError as error:
            problems.append(f"{path}: {error}")
            continue
        wanted = min(LEAST, (last - first) / SHARE)
        if first > identity.now:
            problems.append(f"the certificate in {path} is valid only from {_told(first)} on")
        elif last - identity.now < wanted:
            problems.append(f"the certificate in {path} is valid until {_told(last)} only")
        else:
            return ""
    return ", and ".join(problems)


def _told(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


CHECKS: tuple[Check[Readiness], ...] = (certificate_is_valid,)
