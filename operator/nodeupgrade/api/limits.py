"""How long texts and lists of the API's objects may become: for whoever fills them in, so that nothing is refused.

A text beyond its limit makes the API server refuse the whole status, and with it everything else that was to be told.
"""

from typing import Final

MESSAGE_LENGTH: Final = 512
"""What a task says: its status's message, its action's, its verdict's, and the detail of a hazard."""

STEP_DETAIL_LENGTH: Final = 128
GUARD_DETAIL_LENGTH: Final = 256
FORECAST_LENGTH: Final = 256
"""Why a container would be restarted."""

CONTAINERS_LISTED: Final = 20
"""Containers, pods or hazards of a node that are named one by one; they are counted, however many there are."""

CONDITION_MESSAGE_LENGTH: Final = 1024
FAILURES_LISTED: Final = 20
FAILURE_MESSAGE_LENGTH: Final = 256
APPROVER_LENGTH: Final = 128
