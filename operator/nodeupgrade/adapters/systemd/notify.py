"""Notifies systemd that this service is ready (the ``sd_notify`` protocol)."""

import os
import socket


def notify_ready() -> None:
    """Send READY=1; do nothing in a process that systemd did not start."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(b"READY=1", address)
