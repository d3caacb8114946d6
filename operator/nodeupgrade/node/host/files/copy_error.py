"""Why a file that somebody else names cannot be copied."""


class CopyError(Exception):
    """A file cannot be copied; the message says why."""
