"""The operator's entry point: ``python -m nodeupgrade.controlplane``."""

import logging
import os
import sys

import structlog

from nodeupgrade.controlplane.app import serve
from nodeupgrade.controlplane.settings import SettingsError, from_environment


def main() -> int:
    """Read the settings and serve; 1 when they are incomplete."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    for chatty in ("kopf.objects", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
    )
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    serve(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
