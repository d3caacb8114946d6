"""The machine is rebooted in mid-run, the ordinary way."""

from collections.abc import Callable

from e2e.lab.errors import LabError
from e2e.machines import copies, judge
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import NEW, OLD, Stage, end_of
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at

PLACES = (
    at(Step.STOP_KUBELET, When.DONE),
    at(Step.REWRITE_HASHES, When.DONE),
    at(Step.SWAP_BINARY, When.ANNOUNCED),
    at(Step.START_KUBELET, When.ANNOUNCED),
    at(Step.VERIFY, When.ANNOUNCED),
)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ROLLED_BACK = f"RolledBack (`{Reason.NODE_REBOOTED}`)"


def _rebooted(name: str, place: Failpoint) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        stage.bring(OLD)
        stage.wait_workload()
        node, containers = stage.node, len(stage.settled().running())
        known, boot = {OLD: judge.digests(stage.node)}, node.exec("cat", _BOOT_ID).stdout
        copies.arm(node, [place])
        stage.apply(name, NEW)
        copies.wait_reached(node, place, lambda: stage.is_over(name))
        node.exec("systemctl", "--no-block", "reboot", check=False)
        node.switched_off()
        node.boot()
        ended, message = end_of(stage.cluster.wait_for_end(name))
        copies.disarm(node)
        stage.delete(name)
        verdict = judge.judged(stage, node, known, agent=True)
        wrong = list(verdict.complaints)
        if ended != _ROLLED_BACK:
            wrong.append(f"ended as {ended}: {message}")
        if node.exec("cat", _BOOT_ID).stdout == boot:
            raise LabError("the machine has not rebooted: this proves nothing")
        said = "another boot, exactly as before, all pods again" if not wrong else ""
        return Seen(ended=ended, containers=containers, said=said, complaints=wrong)

    return play


ROWS = tuple(
    Row(
        name=f"reboot/{place}", kind=machines.PLAIN, does=f"{OLD} → {NEW}, rebooted at `{place}`",
        play=_rebooted(f"reboot-{number}", place),
    )
    for number, place in enumerate(PLACES, 1)
)  # fmt: skip
