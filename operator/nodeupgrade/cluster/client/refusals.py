"""What it means if an API server refuses a request: the port's errors."""

from nodeupgrade.api.limits import shorten
from nodeupgrade.cluster.kube_api import (
    FENCE,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotLeadingError,
    RejectedError,
    UnauthenticatedError,
    UnavailableError,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.text import number, parse_json

TOO_MANY_REQUESTS = 429

_BUSY = frozenset({TOO_MANY_REQUESTS, 500, 502, 503, 504})


class AheadError(UnavailableError):
    """The API server's cache lags behind the requested resourceVersion; repeat the request without the cache."""


def failure(what: str, status: int, reason: str, retry_after: str | None = None) -> NodeUpgradeError:
    """Return the port's error for an HTTP status, or for the code of a Status object."""
    message = f"cannot {what} because the API server answers {status}: {reason}"
    match status:
        case 404:
            return NotFoundError(message)
        case 403 | 422 if FENCE in reason:
            return NotLeadingError(message)
        case 400 | 422:
            return InvalidError(message)
        case 401:
            return UnauthenticatedError(
                f"cannot {what} because the API server does not accept the credentials (401: {reason})"
            )
        case 403:
            return ForbiddenError(message)
        case 409:
            return ConflictError(message)
        case 410:
            return ExpiredError(message)
        case 504 if "Too large resource version" in reason:
            return AheadError(message)
        case _ if status in _BUSY:
            seconds = number(retry_after or "") if len(retry_after or "") <= 3 else None
            return UnavailableError(message, seconds or 0)
        case _:
            return RejectedError(message)


def is_about_all_requests(status: int, payload: bytes) -> bool:
    """Report whether an API server has too much to do, and not only refuses this one request for a while.

    Priority and fairness, and the limit on requests in flight that came before it, answer 429 with a line of plain
    text. A 429 with a Status object is about the request: an admission webhook, an eviction, or a resource whose cache
    is being filled. The headers ``X-Kubernetes-PF-*`` do not help: every answer has them.
    """
    if status != TOO_MANY_REQUESTS:
        return False
    try:
        return bool(parse_json(payload)["kind"] != "Status")
    except (ValueError, KeyError, TypeError):
        return True


def refusal_message(payload: bytes) -> str:
    """Return the message of a Status that the API server answered, or the start of whatever else it sent."""
    try:
        return str(parse_json(payload)["message"])
    except (ValueError, KeyError, TypeError):
        return shorten(payload.decode(errors="replace"), 200)
