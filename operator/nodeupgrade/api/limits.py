"""Limits on texts and lists in the API objects, for the code that writes them.

If a text exceeds its limit, the API server rejects the whole status, and with it everything else it reports.
"""

from typing import Final

NAME_LENGTH: Final = 253  # names of Kubernetes objects, and the keys of a ConfigMap
LABEL_LENGTH: Final = 63  # the value of a label; also names of waves and NodeUpgrades, and versions
TEMPLATE_NAME_LENGTH: Final = 52  # the name of a CronJob
IMAGE_LENGTH: Final = 512
CHECK_LENGTH: Final = 64  # the name of a check
PATH_LENGTH: Final = 1024
URL_LENGTH: Final = 2048
RETRY_TOKEN_LENGTH: Final = 256  # characters of a retry token that count; the status repeats the token
CONTAINER_LENGTH: Final = 400  # a container as namespace/pod/container
MESSAGE_LENGTH: Final = 512  # messages of a task: of its status, action and verdict; and the detail of a hazard
STEP_DETAIL_LENGTH: Final = 128
HOOK_MESSAGE_LENGTH: Final = 256
GUARD_DETAIL_LENGTH: Final = 256
FORECAST_LENGTH: Final = 256  # why a container would be restarted
CONTAINERS_LISTED: Final = 20  # containers, pods or hazards of a node; counts include all of them
LISTED_PER_HAZARD: Final = 8  # pods, and owners of pods, that one hazard names besides its first pod
PAST_RUNS_LISTED: Final = 5
CONDITION_MESSAGE_LENGTH: Final = 768
FAILURES_LISTED: Final = 20
FAILURE_MESSAGE_LENGTH: Final = 256
FAILURE_WORD_LENGTH: Final = 32  # reason and step of a failure
UID_LENGTH: Final = 36  # characters of a Node's UID that the status keeps: those of a UUID
APPROVER_LENGTH: Final = 64
ANNOTATION_REASON_LENGTH = 200


def shorten(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Shorten a text that is too long for the API: leave out its middle, between words.

    Messages begin with the object concerned, and end with the cause, often in the words of a server, and the remedy.
    A single long word is cut anywhere.
    """
    if len(text) <= length:
        return text
    end = _last_words(text, length // 2)
    return f"{_first_words(text, length - len(end) - 1)}…{end}"


def stored_uid(uid: str) -> str:
    """Return the UID of a Node as the status stores it."""
    return uid[:UID_LENGTH]


def _first_words(text: str, length: int) -> str:
    cut = text.rfind(" ", length * 3 // 4, length + 1)
    return text[: length if cut < 0 else cut].rstrip(" ,;:(")


def _last_words(text: str, length: int) -> str:
    cut = text.find(" ", len(text) - length, len(text) - length * 3 // 4)
    return text[len(text) - length if cut < 0 else cut :]
