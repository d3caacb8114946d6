"""Runs the program that a kubeconfig names to print credentials, as the kubelet does.

The program runs in a cell (`isolation.py`): in the node's root directory and network, with the kubelet's environment,
but no file can be changed. Its output stays in memory only, for as long as it is valid.
"""

import base64
import json
import math
import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import structlog

from nodeupgrade.api.limits import shorten
from nodeupgrade.kubelet import credential_program
from nodeupgrade.kubelet.credential_program import CredentialProgram, CredentialProgramError, ProgramCredentials
from nodeupgrade.kubelet.kubeconfig import Credentials, with_program_credentials
from nodeupgrade.node.host.files.mounts import REMOTE
from nodeupgrade.node.host.files.ownership import written_by_others
from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.running_kubelet import isolation
from nodeupgrade.node.running_kubelet.requests import CredentialSource, KubeconfigCredentials
from nodeupgrade.text import one_line

log = structlog.get_logger()

SECONDS = 15
"""How long the program may run; one that asks a cloud takes about one."""
GRACE_SECONDS = 5.0
"""To set up and end the cell."""
LARGEST = 256 * 1024
"""Bytes that it may print; credentials have some thousands."""
MESSAGE_CHARACTERS = 300
"""How much of the end of its standard error is quoted."""
_LONG = re.compile(r"[A-Za-z0-9+/_=.~%-]{32,}")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{32,}")
USED_FRACTION = 0.9
"""The part of its life for which a credential is used."""
FAILURE_SECONDS = 10.0
"""How long a failed program is not run again."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of the last run of a program."""

    of: object  # what was run
    result: ProgramCredentials | CredentialProgramError
    until: float  # when it is to be run again, by the monotonic clock


class CredentialPrograms:
    """Runs programs that print credentials. Can be used by several threads at once.

    Args:
        root: mount point of the node's root directory.
        interpreter: words with which Python is started.
        seconds: to live for a program.
    """

    def __init__(self, root: Path, interpreter: tuple[str, ...], *, seconds: int = SECONDS) -> None:
        self._root = root
        self._interpreter = interpreter
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: _Outcome | None = None

    def source(
        self, kubeconfig: PurePosixPath, found: Credentials, kubelets: Callable[[], Mapping[str, str]]
    ) -> CredentialSource:
        """Return the source of a kubeconfig's credentials. No program is run before they are needed.

        Args:
            kubeconfig: path on the node.
            found: what is in it, without paths.
            kubelets: returns the kubelet's environment; called only if a program prints the credentials.

        Raises:
            CredentialProgramError: others than root may write the kubeconfig.
        """
        if found.program is None:
            return KubeconfigCredentials(found)
        self._require_roots_own(kubeconfig)
        return _PrintedSource(self, found, found.program, kubelets())

    def printed(self, program: CredentialProgram, variables: Mapping[str, str]) -> ProgramCredentials:
        """Return what the program prints with this environment, or has printed before.

        Raises:
            CredentialProgramError: it cannot be run, fails, or prints nothing usable.
        """
        with self._lock:
            last = self._last
            if last is None or last.of != (program, variables) or time.monotonic() >= last.until:
                last = self._last = self._run(program, variables)
        if isinstance(last.result, CredentialProgramError):
            raise last.result
        return last.result

    def forget(self, what: ProgramCredentials) -> None:
        """Run the program again when credentials are needed next, unless it ran since it printed these."""
        with self._lock:
            if self._last is not None and self._last.result is what:
                self._last = None

    def _run(self, program: CredentialProgram, variables: Mapping[str, str]) -> _Outcome:
        try:
            path = self._found(program, variables)
            began = time.monotonic()
            result = credential_program.parse_output(program, self._output(path, program, variables))
        except (CredentialProgramError, OSError) as error:  # such as links that lead nowhere
            failed = CredentialProgramError(f"program {program}: {error}")
            return _Outcome((program, variables), failed, time.monotonic() + FAILURE_SECONDS)
        log.info(
            "credentials_printed",
            program=str(path),
            seconds=round(time.monotonic() - began, 3),
            expires=None if result.expires is None else result.expires.isoformat(),
        )
        life = math.inf if result.expires is None else (result.expires - datetime.now(UTC)).total_seconds()
        return _Outcome((program, variables), result, time.monotonic() + USED_FRACTION * life)

    def _found(self, program: CredentialProgram, variables: Mapping[str, str]) -> PurePosixPath:
        for place in credential_program.candidate_paths(program, variables):
            at = resolve(self._root, place, follow_last=True)
            if at.is_file() and at.stat().st_mode & 0o111:
                self._require_roots_own(place)
                return place
        raise CredentialProgramError("there is no such program")

    def _require_roots_own(self, path: PurePosixPath) -> None:
        """Require that only root may write a file, or exchange it or a link on the way to it.

        Raises:
            CredentialProgramError: others may, or that is unknown.
        """
        try:
            found = written_by_others(self._root, path)
        except OSError as error:
            raise CredentialProgramError(f"cannot find out who may write {path}: {error.strerror or error}") from error
        if found is not None:
            raise CredentialProgramError(f"others than root may write {found}, on the way to {path}")

    def _output(self, path: PurePosixPath, program: CredentialProgram, variables: Mapping[str, str]) -> bytes:
        """Run the program in a cell and return what it prints.

        Raises:
            CredentialProgramError: it failed, did not end in time, or printed too much.
        """
        order = {
            "root": str(self._root),
            "program": str(path),
            "name": program.command,
            "words": program.arguments,
            "environment": dict(variables),
            "seconds": self._seconds,
            "absent": sorted(REMOTE),
        }
        try:
            status, output, errors = _communicate(
                (*self._interpreter, isolation.__file__), json.dumps(order).encode(), self._seconds + GRACE_SECONDS
            )
        except OSError as error:
            raise CredentialProgramError(f"it could not be run: {error.strerror or error}") from error
        if len(output) > LARGEST:
            raise CredentialProgramError(f"it prints more than {LARGEST // 1024} KiB")
        if status < 0:
            raise CredentialProgramError(f"it did not end within {self._seconds} s, and was ended")
        if status != 0:
            words = _without_secrets(one_line(errors.decode(errors="replace")))
            words = shorten(words[-MESSAGE_CHARACTERS:], MESSAGE_CHARACTERS)
            raise CredentialProgramError(f"it failed with exit status {status} (it may change no files): {words}")
        return output


class _PrintedSource:
    """Implements CredentialSource with the output of a program."""

    def __init__(
        self,
        programs: CredentialPrograms,
        found: Credentials,
        program: CredentialProgram,
        kubelets: Mapping[str, str],
    ) -> None:
        authority = found.authority.data
        encoded = None if authority is None else base64.b64encode(authority).decode("ascii")
        self._programs = programs
        self._found = found
        self._program = program
        self._environment = credential_program.environment(program, kubelets, encoded)
        self._used: ProgramCredentials | None = None

    def current(self) -> Credentials:
        self._used = self._programs.printed(self._program, self._environment)
        return with_program_credentials(self._found, self._used)

    def rejected(self) -> bool:
        if self._used is not None:
            self._programs.forget(self._used)
        return True


def _without_secrets(words: str) -> str:
    """Leave out what looks like a token, a key or a signature; a debugging program may print them."""

    def shown(match: re.Match[str]) -> str:
        mixed = all(any(kind(letter) for letter in match[0]) for kind in (str.isupper, str.islower, str.isdecimal))
        return "…" if mixed or _HEXADECIMAL.search(match[0]) else match[0]

    return _LONG.sub(shown, words)


def _communicate(command: tuple[str, ...], order: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """Run a cell; return its exit status, what it printed up to one byte more than LARGEST, and its last words.

    It is ended after so many seconds, or when it prints more.
    """
    end = time.monotonic() + seconds
    output, errors = b"", b""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise OSError("it has no pipes")
        try:
            process.stdin.write(order)
            process.stdin.close()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                waiting.register(process.stderr, selectors.EVENT_READ)
                while waiting.get_map() and len(output) <= LARGEST and (left := end - time.monotonic()) > 0:
                    for key, _ in waiting.select(left):
                        data = os.read(key.fd, LARGEST)
                        if not data:
                            waiting.unregister(key.fileobj)
                        elif key.fileobj is process.stdout:
                            output = (output + data)[: LARGEST + 1]
                        else:
                            errors = (errors + data)[-4 * MESSAGE_CHARACTERS :]
        finally:
            if len(output) > LARGEST or time.monotonic() >= end:
                process.kill()
    return process.returncode, output, errors
