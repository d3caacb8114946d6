"""Tells systemd that this service is ready (the protocol of ``sd_notify``)."""

import os
import socket


def notify_ready() -> None:
    """Say READY=1; a process that systemd did not start says nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(b"READY=1", address)
