"""Repeat calls that may fail for a while, and translate their errors."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.errors import StepFailed, Transient

R = TypeVar("R")


def retry_for(
    call: Callable[[], R], seconds: float, *, pause: float = 0.05, errors: tuple[type[Exception], ...] = (Transient,)
) -> R:
    """Call an idempotent function, and repeat it on these errors for up to so many ``seconds``."""
    retry, stop = retry_if_exception_type(errors), stop_after_delay(seconds)
    return Retrying(retry=retry, stop=stop, wait=wait_fixed(pause), reraise=True)(call)


@contextlib.contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise StepFailed in place of an OSError.

    Args:
        what: begins the message, such as ``cannot read /etc/x``.
    """
    try:
        yield
    except OSError as error:
        raise StepFailed(f"{what} because {error.strerror or error}") from error
