"""The rescue script: brings the old kubelet back when the executor can no longer run.

One self-contained file of plain ``sh``, which starts an executor from another copy of the bundle. If that cannot run
either, and no hash was rewritten, it restores files and starts the old kubelet by itself. It is written before the
kubelet stops, and updated before the first file is. See docs/decisions/rescue.md.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from shlex import quote

from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.kubelet.layout import log_directories, sockets_beside
from nodeupgrade.node.host.shell import define_function, piped_command
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.journal.run_store import RESCUE, volatile
from nodeupgrade.node.names_beside import ASIDE, PREVIOUS, UNFINISHED
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.exchanged_files import reloads_without_kubelet
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.rescue.script_logic import LOGIC
from nodeupgrade.node.rescue.timeouts import ABSENT_SECONDS, DEATHS, LASTING_SECONDS, LOWERS_WITHIN, hung_seconds
from nodeupgrade.node.runtimes.description import RUNTIME_SOCKET, SHIELD_SOCKET
from nodeupgrade.text import trimmed

SCRIPT = PurePosixPath("/run/nodeupgrade-rescue.sh")
"""In memory: after a reboot no container is left to keep, and the executor's rollback restores files."""
LOOK = PurePosixPath("/run/nodeupgrade-rescue")
"""The state that the script observed last, and since when. It has its size from the start, so that it can be written
where /run is full.
"""
EMPTY_LOOK = b"\n".rjust(101)
RESERVE = PurePosixPath("/run/nodeupgrade-rescue.reserve")
"""Space for systemd to read its files on the way back, which it refuses to do with less than 16 MiB free in ``/run``
(RELOAD_DISK_SPACE_MIN).
"""
RESERVE_BYTES, RELOAD_BYTES = 20 * 1024**2, 17 * 1024**2
IN_MEMORY = (SCRIPT, LOOK, RESERVE)
"""What the rescue has in ``/run`` until the run is over."""
UNIT = "nodeupgrade-rescue.service"
TIMER = "nodeupgrade-rescue.timer"
SPARE = "nodeupgrade-spare.service"
"""The executor from the other copy of the bundle."""
KEEPER = "nodeupgrade-lease-keeper.service"
SHIELD = "nodeupgrade-shield.service"
KUBELET_ENVIRONMENT = PurePosixPath("/run/nodeupgrade-kubelet-environment.json")
"""For the lease keeper, where a program prints the kubelet's credentials. In memory, and for root alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBefore:
    """A file to restore."""

    path: str
    content: bytes | None  # its content; None if the file did not exist
    # restore only if this is its current content; anything else is a change by another tool or a person
    only_if: bytes | None = None
    place: str | None = None  # the directory to make it in, since others may write in its own; None for its own


def script(plan: RunPlan, files: tuple[FileBefore, ...]) -> bytes:
    """Return the script for one run."""
    unit = plan.swap.unit
    settings = {
        "version": plan.from_version,
        "unit": unit,
        "runtime_unit": plan.runtime_unit,
        "healthz": plan.healthz_url,
        "run": str(RUNS / plan.run_id),
        "look": str(LOOK),
        "reserve": str(RESERVE),
        "mark": str(volatile(RESCUE, plan.run_id)),
        "program": plan.swap.path,
        "backup": plan.swap.backup,
        "before": plan.swap.before,
        "unfinished": UNFINISHED,
        "previous": PREVIOUS,
        "moved_aside": ASIDE,
        "reloads": "yes" if reloads_without_kubelet(plan) else "",
        "flag": str(fence.flag(unit)),
        "lifted": str(fence.lifted(unit)),
        "drop_in": str(fence.drop_in(unit)),
        "drop_in_text": trimmed(fence.drop_in_text(unit)),
        "look_timer": TIMER,
        "script": str(SCRIPT),
        "environment": str(KUBELET_ENVIRONMENT),
        "spare": SPARE,
        **_shield(plan),
        "lease_keeper": KEEPER if plan.limits.keep_lease and plan.kubeconfig else "",
        "finished": f'"mark":"{Mark.FINISHED}"',
        "committed": f'"mark":"{Mark.DONE}".*"step":"{COMMIT}"',
        "commit_step": f'"step":"{COMMIT}"',
        "stopping": f'"step":"{Step.STOP_KUBELET}"',
        "rewriting": f'"step":"{Step.REWRITE_HASHES}"' if plan.rewrites() else '"step":"that is not taken"',
        "absent_seconds": str(ABSENT_SECONDS),
        "lasting_seconds": str(LASTING_SECONDS),
        "hung_seconds": str(hung_seconds(plan.limits)),
        "most_deaths": str(DEATHS),
    }
    lines = [
        "#!/bin/sh",
        f"# nodeupgrade, run {plan.run_id}: brings kubelet {plan.from_version} back when the executor cannot.",
        *(f"{name}={quote(value)}" for name, value in settings.items()),
        *define_function("make_way_for_sockets", map(_way_made, sockets_beside(plan.state_files))),
        *define_function("make_way_for_logs", map(_way_made_for_logs, log_directories(plan.logs))),
        *define_function("restore_files", (*map(_restored, files), *map(_put_back, plan.exchanged))),
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


def _way_made(socket: PurePosixPath) -> str:
    return f"    make_way {quote(str(socket))}"


def _way_made_for_logs(directory: PurePosixPath) -> str:
    return f"    make_way_for_directory {quote(str(directory))}"


def _put_back(file: ExchangedFile) -> str:
    """Return the command that puts an exchanged file back, without its content, which may be secret."""
    path, after = quote(file.path), quote(file.after)
    aside = f"    set_aside {path} || return 1\n"
    if file.before is None:
        return f"{aside}    if reads {path} {after}; then remove {path}; else is_known {path}; fi || return 1"
    return f"{aside}    put_back {path} {quote(file.backup)} {quote(file.before)} {after} || return 1"


def _restored(file: FileBefore) -> str:
    path = quote(file.path)
    aside = f"    set_aside {path} || return 1\n" if file.place is None and file.only_if is None else ""
    if file.content is None:
        command = f"{aside}    {'' if file.place is None else f'left {path} || '}remove {path} || return 1"
    else:
        put = "put" if file.place is None else f"put_from {quote(file.place)}"
        command = aside + piped_command(f"{put} {path} {sha256(file.content).hexdigest()}", file.content)
    if file.only_if is None:
        return command
    condition = f"reads {path} {sha256(file.only_if).hexdigest()}"
    return f"    if {condition}; then\n{command}\n    else is_known {path} || return 1\n    fi"
