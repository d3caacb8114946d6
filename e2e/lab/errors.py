"""The only error type of the lab, so that callers can show it without a traceback."""


class LabError(Exception):
    """The lab cannot do something; the message names the cause and the remedy."""
