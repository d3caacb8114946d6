"""Notifies systemd about this service (the ``sd_notify`` protocol)."""

import os
import socket


def notify(message: str) -> None:
    """Send a message; do nothing in a process that systemd did not start."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(message.encode(), address)


def notify_ready() -> None:
    """Report that the service is ready."""
    notify("READY=1")
