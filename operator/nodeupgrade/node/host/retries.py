"""What adapters do around calls: repeat them for a while, translate their errors, and speak HTTP over a unix socket."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.errors import StepFailed, Transient

R = TypeVar("R")


def patiently(
    call: Callable[[], R], seconds: float, *, pause: float = 0.05, errors: tuple[type[Exception], ...] = (Transient,)
) -> R:
    """Call an idempotent function, and repeat it on errors of these types until the time is up."""
    retry, stop = retry_if_exception_type(errors), stop_after_delay(seconds)
    return Retrying(retry=retry, stop=stop, wait=wait_fixed(pause), reraise=True)(call)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise StepFailed in place of an OSError.

    Args:
        what: what cannot be done, such as ``cannot read /etc/x``.
    """
    try:
        yield
    except OSError as error:
        raise StepFailed(f"{what} because {error.strerror or error}") from error
