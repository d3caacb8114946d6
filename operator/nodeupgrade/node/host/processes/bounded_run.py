"""Runs a program of which others may decide how much it prints."""

import errno
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

CHUNK = 1024 * 1024


def run_bounded(
    words: Sequence[str], *, env: Mapping[str, str], timeout: float, limit: int
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program and return what it printed. It reads nothing, and is killed if that takes or yields too much.

    Args:
        words: its path and arguments.
        env: its environment.
        timeout: seconds.
        limit: bytes, of its output and of its errors.

    Raises:
        TimeoutExpired: it does not end in time.
        OSError: it cannot be run, or prints more than that (EFBIG).
    """
    end = time.monotonic() + timeout
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(words, env=env, stdin=nothing, stdout=pipe, stderr=pipe) as process:
        try:
            output, errors = _read(process, end, limit)
            process.wait(max(0.0, end - time.monotonic()))
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _read(process: "subprocess.Popen[bytes]", end: float, limit: int) -> tuple[bytes, bytes]:
    """Read both streams until they are closed."""
    printed = (bytearray(), bytearray())
    with selectors.DefaultSelector() as open_ends:
        for stream, read in zip((process.stdout, process.stderr), printed, strict=True):
            if stream is not None:
                open_ends.register(stream, selectors.EVENT_READ, read)
        while open_ends.get_map():
            ready = open_ends.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, 0.0)
            for key, _ in ready:
                if not (data := os.read(key.fd, CHUNK)):
                    open_ends.unregister(key.fileobj)
                key.data.extend(data)
                if len(key.data) > limit:
                    raise OSError(errno.EFBIG, f"it prints more than {limit} bytes")
    return bytes(printed[0]), bytes(printed[1])
