"""The operator's entry point: ``python -m nodeupgrade.controlplane``."""

import logging
import os
import sys

import structlog

from nodeupgrade.controlplane.serve import serve
from nodeupgrade.controlplane.settings import SettingsError, from_environment
from nodeupgrade.logs import log_to_stderr

_log = structlog.get_logger(__name__)


def main() -> int:
    """Read the settings and run the operator; return 0 after a normal stop, 1 on invalid settings or any other end."""
    log_to_stderr()
    logging.captureWarnings(capture=True)
    for chatty in ("kopf.objects", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        _log.error("operator_start_failed", error=str(error))
        return 1
    return serve(settings)


if __name__ == "__main__":
    sys.exit(main())
