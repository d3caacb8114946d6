"""The rescue script: brings the old kubelet back when the executor itself can no longer run.

One file of plain ``sh`` with everything in it that it needs: no Python, no bundle, nothing to look up. It is laid
down before the kubelet stops and made exact before the first hash is written. See docs/decisions/rescue.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePosixPath
from shlex import quote

from nodeupgrade.domain.node import fence
from nodeupgrade.domain.node.evidence.shown import GO_ON
from nodeupgrade.domain.node.plan import Limits, RunPlan
from nodeupgrade.domain.node.run.journal import Mark, Step
from nodeupgrade.domain.node.run.rescue_logic import LOGIC
from nodeupgrade.domain.node.run.shell import function, piped

SCRIPT = PurePosixPath("/run/nodeupgrade-rescue.sh")
"""In memory: after a reboot there is no container left to be kept, and the journal's own undo puts files back."""
LOOK = PurePosixPath("/run/nodeupgrade-rescue")
"""What the script saw when it last looked, and since when."""
UNIT = "nodeupgrade-rescue.service"
TIMER = "nodeupgrade-rescue.timer"
LOOK_SECONDS = 3
KEEPER = "nodeupgrade-lease-keeper.service"
ABSENT_SECONDS = 20
"""An executor that is killed holds its journal again within 10 s, on a busy machine and through its timer too."""
SYSTEMCTL_SECONDS = 120


class Rescue(StrEnum):
    """How far the script has come with a run; what it writes into the run's directory."""

    NONE = ""
    BEGUN = "begun"
    """Anything may be half restored: the executor has to go back, whatever the journal says."""
    DONE = "done"
    """Everything is as it was before, but for the fence and the old kubelet's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueFragment:
    """How a runtime is asked and its stored hashes are put back without this program.

    Attributes:
        restores: whether there is any hash to put back.
        text: plain ``sh`` that defines the functions and variables below; it may write below ``$answers``, and ends
            with a new line.

            - ``can_ask``: whether there is on this node what the others need; ``$asks_with`` names it.
            - ``listing``: leaves in ``$answers/body`` what the runtime serves, the id of every running container in it;
              fails if it does not answer.
            - ``restore_hashes``: puts every hash back; where it fails, ``$trouble`` says why. The runtime may be
              stopped for it, and is started again by it then. Repeating it is harmless.
            - ``serves_new_hashes``: whether any container of the last listing has its new hash.
    """

    restores: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBefore:
    """A file as it was.

    Attributes:
        content: ``None`` if there was no such file.
        only_if: restored only if it reads like this now, since anything else is somebody else's.
    """

    path: str
    content: bytes | None
    only_if: bytes | None = None


def hung_seconds(limits: Limits) -> int:
    """For how long a living executor may be silent: its longest undo restarts the runtime and waits twice for it."""
    return int(2 * limits.runtime_restart + 2 * SYSTEMCTL_SECONDS)


def script(
    plan: RunPlan, runtime: RescueFragment, files: tuple[FileBefore, ...], run_directory: PurePosixPath
) -> bytes:
    """The whole script for one run."""
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
        "flag": str(fence.flag(unit)),
        "drop_in": str(fence.drop_in(unit)),
        "drop_in_text": fence.drop_in_text(unit).strip(),
        "look_timer": TIMER,
        "script": str(SCRIPT),
        "lease_keeper": KEEPER if plan.limits.keep_lease and plan.kubeconfig else "",
        "go_on": str(run_directory / GO_ON),
        "finished": f'"mark":"{Mark.FINISHED}"',
        "committed": f'"mark":"{Mark.DONE}".*"step":"{Step.VERIFY}"',
        "stopping": f'"step":"{Step.STOP_KUBELET}"',
        "rewriting": f'"step":"{Step.REWRITE_HASHES}"' if runtime.restores else '"step":"that is not taken"',
        "absent_seconds": str(ABSENT_SECONDS),
        "hung_seconds": str(hung_seconds(plan.limits)),
        "runtime_seconds": str(int(plan.limits.runtime_restart)),
    }
    lines = [
        "#!/bin/sh",
        f"# nodeupgrade, run {plan.run_id}: brings kubelet {plan.from_version} back when the executor cannot.",
        *(f"{name}={quote(value)}" for name, value in settings.items()),
        *function("baseline", _baseline(plan)),
        *function("restore_files", (_restored(file) for file in files)),
        runtime.text,
        LOGIC,
    ]
    return "\n".join(lines).encode()


def _baseline(plan: RunPlan) -> Iterator[str]:
    """A command that prints the id of each container that ran, its process, and when that was started."""
    expendable = {c.id for c in plan.containers if c.expendable}
    lines = [
        f"{c.id} {c.process.pid} {c.process.started}"
        for c in plan.baseline.running()
        if c.process is not None and c.id not in expendable
    ]
    if lines:
        yield "\n".join(["    cat <<'.'", *lines, "."])


def _restored(file: FileBefore) -> str:
    path = quote(file.path)
    if file.content is None:
        command = f"    rm -f {path}"
    else:
        command = piped(f"put {path} {sha256(file.content).hexdigest()}", file.content)
    if file.only_if is None:
        return command
    return f"    if reads {path} {sha256(file.only_if).hexdigest()}; then\n{command}\n    fi"
