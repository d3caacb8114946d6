"""Looks before a daemon-reload."""


def at_once() -> None:
    """Where nothing can be taken."""
