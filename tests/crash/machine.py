"""A whole node on one disk: plan, journal, units and all that a run changes, written by the real adapters.

Nothing of it is in a double: files go through HostFiles, plans and journals through RunStore, units through the
agent's own code, down to single system calls on a disk that can lose power between any two of them.
"""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.node.executor import units
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.journal.journal import Mark, Outcome
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.run import NodeRun, fence_after_reboot
from nodeupgrade.node.runtimes.inventory import SandboxInstance
from tests.builders.looks import at_once
from tests.crash.harness import CONFIG, NEW, NEW_FILES, OLD, OLD_CONFIG, World, mixtures, node_of, plan_of
from tests.doubles.node import Behaviour, Moment, SimulatedNode
from tests.doubles.node.containers.records import Stored
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.storage.disk import Image, ModelDisk
from tests.doubles.node.storage.view import DiskView

BUNDLE = PurePosixPath("/var/lib/nodeupgrade/bundles/bundle")
RUNS = Path("/var/lib/nodeupgrade/runs")
ARTIFACT = "/opt/kubelet"
PROGRAM_MODE = 0o755
UNTIL_GIVEN_UP = 2000.0
"""Seconds since boot until a person has whatever is still held go on."""
CONFIG_MODE = 0o640


@dataclass(frozen=True)
class Wreck:
    """What is left when the power goes: the disk, and what the runtime keeps, which commits by itself."""

    image: Image
    containers: dict[ContainerId, Stored]
    sandboxes: dict[SandboxId, SandboxInstance]
    numbered: int
    boots: int

    @property
    def key(self) -> object:
        return self.image, tuple((i, stored.hashes) for i, stored in self.containers.items()), self.boots


class Machine:
    """A node, the agent's part of a run, the executor, and the disk under all of them."""

    def __init__(self, *, turns_back: bool, disk: ModelDisk | None = None) -> None:
        self.disk = disk or ModelDisk()
        self.node: SimulatedNode = node_of(small=True, disk=DiskView(self.disk))
        self.disk.put(PROGRAM, program(OLD), PROGRAM_MODE)
        self.disk.put(ARTIFACT, program(NEW), PROGRAM_MODE)
        self.disk.put(CONFIG, OLD_CONFIG, CONFIG_MODE)
        if turns_back:
            self.node.kubelet.behaviour[NEW] = Behaviour.SICKENS
        self.plan: RunPlan = plan_of(small=True)
        self.node.shield.plan = self.plan
        self.before = dict(self.node.disk)
        self.files = HostFiles(disk=self.disk)
        self.node.kubelet.stamp = self.files.stamp
        self.runs = RunStore(RUNS, disk=self.disk, lock=lambda _: None)
        clock = self.node.timeline

        def late() -> bool:
            return clock.monotonic > UNTIL_GIVEN_UP

        self.ports = replace(self.node.ports, files=self.files, go_on=late, end=late)
        self.report: RunReport | None = None
        self.calls = 0
        self.unguarded = False

    def interrupt(self, strike: Callable[[], None]) -> None:
        """Have ``strike`` called before every system call and every other effect."""

        def passing(_call: str, path: str) -> None:
            self.calls += 1
            self.node.kubelet.watch()
            if not path.startswith("/run/"):
                strike()

        def effect(_name: str, _number: int, moment: Moment) -> None:
            if moment is Moment.BEFORE:
                strike()

        self.disk.passing = passing
        self.node.calls.interrupt = effect

    def upgrade(self) -> None:
        """Everything from staging to tidying up."""
        staged = PurePosixPath(self.plan.swap.staged)
        self.files.copy(PurePosixPath(ARTIFACT), staged)
        self.files.adopt(PurePosixPath(PROGRAM), staged)
        for new in NEW_FILES:
            self.files.write(PurePosixPath(staged_path(new.path)), new.content, mode=new.mode)
        self.runs.write_plan(self.plan)
        units.install(self.files, self.node.services, (BUNDLE, BUNDLE), self.plan, look=at_once)
        self.finish()

    def finish(self) -> None:
        """What the executor does when it is started, and the agent after it."""
        run = self.runs.unfinished()
        if run is not None:
            with self.runs.open_journal(run) as store:
                fence_after_reboot(self.ports, self.plan, store.load())
                self.report = NodeRun(node=self.ports, plan=self.runs.require_plan(run), store=store).carry_out()
        units.remove(self.files, self.node.services, self.plan.swap.unit, [self.node.runtime.kind])
        for path in self.plan.temporary(keeping_old=False):
            self.files.remove(PurePosixPath(path))

    def wrecks(self) -> Iterator[Wreck]:
        """Everything that may be left if the power goes now."""
        runtime = self.node.runtime
        for image in self.disk.after_power_cut():
            yield Wreck(
                image,
                {i: copy(stored) for i, stored in runtime.containers.items()},
                dict(runtime.sandboxes),
                runtime.numbered,
                self.node.timeline.boots,
            )

    def boot(self, wreck: Wreck) -> None:
        """Lose power, find the disk like this, and boot; the executor comes before the kubelet if its unit is there."""
        self.disk.load(wreck.image)
        runtime = self.node.runtime
        runtime.containers = {i: copy(stored) for i, stored in wreck.containers.items()}
        runtime.sandboxes, runtime.numbered = dict(wreck.sandboxes), wreck.numbered
        self.node.timeline.boots = wreck.boots
        self.node.power_off()
        if not self._is_installed():
            self.unguarded = self._stands_between()
            self.node.power_on()
        else:
            self.node.power_on(self._executor_first)

    def _stands_between(self) -> bool:
        """Whether the kubelet must not start before the executor has put things in order."""
        run = self.runs.unfinished()
        journal = None if run is None else self.runs.read_journal(run)
        return (
            journal is not None
            and journal.mark(Step.STOP_KUBELET) not in {None, Mark.UNDONE}
            and journal.mark(COMMIT) is not Mark.DONE
        )

    def _is_installed(self) -> bool:
        """Both units are whole; systemd would complain about half a file and go on without it."""
        executor = units.UNIT_DIRECTORY / units.EXECUTOR
        drop_in = units.UNIT_DIRECTORY / f"{self.plan.swap.unit}.d" / "80-nodeupgrade-executor.conf"
        return (self.files.read(executor), self.files.read(drop_in)) == (
            units.executor_unit(BUNDLE, self.plan.runtime_unit).encode(),
            units.KUBELET_DROP_IN.encode(),
        )

    def _executor_first(self) -> bool:
        run = self.runs.unfinished()
        if run is not None:
            with self.runs.open_journal(run) as store:
                fence_after_reboot(self.ports, self.runs.require_plan(run), store.load())
        return True

    def wrongs(self) -> list[str]:
        """Everything that is neither OLD nor NEW, and what should have been taken away."""
        journal = self.runs.read_journal(self.plan.run_id)
        outcome = self.report.outcome if self.report else None
        if outcome is None and journal.finished is not None and journal.finished.payload is not None:
            outcome = Outcome(str(journal.finished.payload["outcome"]))
        found = mixtures(World(self.node, self.plan, self.before), upgraded=outcome is Outcome.UPGRADED)
        if self.unguarded:
            found.append("the kubelet started before the executor at boot")
        modes = {path: mode for path, _, mode in self.disk.image()}
        if modes.get(PROGRAM) != PROGRAM_MODE:
            found.append(f"{PROGRAM} has mode {modes.get(PROGRAM, 0):o}")
        wanted = NEW_FILES[0].mode if outcome is Outcome.UPGRADED else CONFIG_MODE
        if modes.get(CONFIG) != wanted:
            found.append(f"{CONFIG} has mode {modes.get(CONFIG, 0):o}")
        return found

    def state(self) -> object:
        """All that a second recovery must not change."""
        return self.disk.image(), self.node.inventory(), self.node.kubelet.process, self.report
