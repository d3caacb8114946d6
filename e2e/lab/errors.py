"""The one error type of the lab, so that callers can show it without a traceback."""


class LabError(Exception):
    """Something the lab cannot do; the message names the cause and the remedy."""
