"""The rescue script: brings the old kubelet back when the executor can no longer run.

One self-contained file of plain ``sh``: it must not need Python or the bundle. It is written before the kubelet stops,
and updated before the first hash is written. See docs/decisions/rescue.md.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePosixPath
from shlex import quote

from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.domain.node import systemd_units
from nodeupgrade.domain.node.journal import Mark
from nodeupgrade.domain.node.plan import ExchangedFile, Limits, RunPlan
from nodeupgrade.domain.node.rescue_shell import LOGIC
from nodeupgrade.domain.node.runtime import RUNTIME_SOCKET, SHIELD_SOCKET
from nodeupgrade.domain.node.verification import GO_ON

SCRIPT = PurePosixPath("/run/nodeupgrade-rescue.sh")
"""In memory: after a reboot no container is left to keep, and the executor's rollback restores files."""
LOOK = PurePosixPath("/run/nodeupgrade-rescue")
"""The state that the script observed last, and since when."""
UNIT = "nodeupgrade-rescue.service"
TIMER = "nodeupgrade-rescue.timer"
LOOK_SECONDS = 3
KEEPER = "nodeupgrade-lease-keeper.service"
SHIELD = "nodeupgrade-shield.service"
LOWERS_WITHIN = 12
"""Seconds after which a shield that was told to stop is lowered, or has ended with an error; otherwise it is frozen."""
ABSENT_SECONDS = 20
"""A killed executor locks its journal again within 10 s, even on a busy machine and if its timer has to start it."""
DEATHS = 10
"""Times that an executor may be gone before its journal says anything more. However short that is each time, such an
executor brings nothing to an end: where memory is short, for example, it is killed whenever it has begun.
"""
SYSTEMCTL_SECONDS = 120


class Rescue(StrEnum):
    """How far the script has come with a run, as it writes it into the run's directory."""

    NONE = ""
    BEGUN = "begun"
    """Anything may be half restored: the executor must roll back, whatever the journal says."""
    DONE = "done"
    """Everything is restored, except that the kubelet is fenced and has to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueFragment:
    """The runtime's part of the script: how to list containers and restore stored hashes without this program."""

    restores: bool  # whether there is any hash to restore
    # plain ``sh`` that defines the functions and variables below; it may write below ``$answers``, and ends with a
    # newline. - ``can_ask``: succeeds if the node has the tools that the others need; ``$asks_with`` names them. -
    # ``listing``: writes what the runtime serves to ``$answers/body``, with the id of every running container; fails if
    # the runtime does not answer. - ``restore_hashes``: restores every hash; if it fails, ``$trouble`` says why. It may
    # stop the runtime, and then starts it again. Must be idempotent. - ``reinstate``, if the runtime remembers ends: as
    # ContainerRuntime.reinstate; fails if nothing was done. - ``serves_new_hashes``: succeeds if any container of the
    # last listing has its new hash.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBefore:
    """A file to restore."""

    path: str
    content: bytes | None  # its content; None if the file did not exist
    # restore only if this is its present content; anything else was written by somebody else
    only_if: bytes | None = None


def hung_seconds(limits: Limits) -> int:
    """Return how long a live executor may be silent: its longest undo restarts the runtime and waits for it twice."""
    return int(2 * limits.runtime_restart + 2 * SYSTEMCTL_SECONDS)


def script(
    plan: RunPlan, runtime: RescueFragment, files: tuple[FileBefore, ...], run_directory: PurePosixPath
) -> bytes:
    """Return the script for one run."""
    unit = plan.swap.unit
    settings = {
        "version": plan.from_version,
        "unit": unit,
        "runtime_unit": plan.runtime_unit,
        "healthz": plan.healthz_url,
        "run": str(run_directory),
        "look": str(LOOK),
        "program": plan.swap.path,
        "backup": plan.swap.backup,
        "before": plan.swap.before,
        "flag": str(systemd_units.flag(unit)),
        "drop_in": str(systemd_units.drop_in(unit)),
        "drop_in_text": systemd_units.drop_in_text(unit).strip(),
        "look_timer": TIMER,
        "script": str(SCRIPT),
        **_shield(plan),
        "lease_keeper": KEEPER if plan.limits.keep_lease and plan.kubeconfig else "",
        "go_on": str(run_directory / GO_ON),
        "finished": f'"mark":"{Mark.FINISHED}"',
        "committed": f'"mark":"{Mark.DONE}".*"step":"{COMMIT}"',
        "stopping": f'"step":"{Step.STOP_KUBELET}"',
        "rewriting": f'"step":"{Step.REWRITE_HASHES}"' if runtime.restores else '"step":"that is not taken"',
        "absent_seconds": str(ABSENT_SECONDS),
        "hung_seconds": str(hung_seconds(plan.limits)),
        "most_deaths": str(DEATHS),
        "runtime_seconds": str(int(plan.limits.runtime_restart)),
    }
    lines = [
        "#!/bin/sh",
        f"# nodeupgrade, run {plan.run_id}: brings kubelet {plan.from_version} back when the executor cannot.",
        *(f"{name}={quote(value)}" for name, value in settings.items()),
        *function("baseline", _baseline(plan)),
        *function("restore_files", (*map(_restored, files), *map(_put_back, plan.exchanged))),
        *function("reinstate", ["    false"]),
        runtime.text,
        LOGIC,
    ]
    return "\n".join(lines).encode()


def _shield(plan: RunPlan) -> dict[str, str]:
    if plan.shield is None:
        return {"shield": ""}
    socket = PurePosixPath(plan.shield.socket)
    beside = {"shield_socket": SHIELD_SOCKET, "runtime_socket": RUNTIME_SOCKET}
    return {"shield": SHIELD, "shield_seconds": str(LOWERS_WITHIN), "kubelet_socket": str(socket)} | {
        name: str(socket.with_name(at)) for name, at in beside.items()
    }


def _baseline(plan: RunPlan) -> Iterator[str]:
    """Yield a command that prints id, PID and start time of each container that has to survive the run."""
    lines = [f"{c.id} {c.process.pid} {c.process.started}" for c in plan.watched().running() if c.process is not None]
    if lines:
        yield "\n".join(["    cat <<'.'", *lines, "."])


def _put_back(file: ExchangedFile) -> str:
    """Return the command that puts an exchanged file back, without its content, which may be secret."""
    path, after = quote(file.path), quote(file.after)
    if file.before is None:
        return f"    if reads {path} {after}; then rm -f {path}; fi"
    return f"    put_back {path} {quote(file.backup)} {quote(file.before)} {after} || return 1"


def _restored(file: FileBefore) -> str:
    path = quote(file.path)
    if file.content is None:
        command = f"    rm -f {path}"
    else:
        command = piped(f"put {path} {sha256(file.content).hexdigest()}", file.content)
    if file.only_if is None:
        return command
    return f"    if reads {path} {sha256(file.only_if).hexdigest()}; then\n{command}\n    fi"


# Generate pieces of plain ``sh`` with embedded data, for scripts that must be self-contained.

LINE_LENGTH = 120


def function(name: str, commands: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a function; without commands it does nothing and succeeds."""
    yield f"{name}() {{"
    yield "    :"
    yield from commands
    yield "}"


def piped(command: str, data: bytes) -> str:
    """Return a command that reads ``data`` as base64; if it fails, the function around it returns 1."""
    whole = base64.b64encode(data).decode("ascii")
    text = "\n".join(whole[i : i + LINE_LENGTH] for i in range(0, len(whole), LINE_LENGTH))
    return f"    {command} <<'.' || return 1\n{text}\n."
