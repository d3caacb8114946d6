"""The shield between the simulated kubelet and runtime, with its process."""

from collections.abc import Callable, MutableMapping

from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.plan.manifest_uid import digests_of
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.shield.call_admission import PATIENCE_SECONDS
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall, Shielded
from nodeupgrade.node.shield.shield import RefusedCall
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.runtime import SimulatedRuntime
from tests.doubles.node.storage.reading import readable
from tests.doubles.node.timeline import Timeline


class SimulatedShield:
    """Implements node.shield.shield.Shield; the methods of the second half are for the simulated node only.

    Attributes:
        plan: of the unfinished run, which the process reads when it starts.
        running: whether the process runs.
        unwritable: whether it cannot write down what it refused.
        aside: whether it has left the path of a runtime that has ended.
        unstartable: whether the process cannot be started.
        owners: returns what shows what owners changed.
        shuts_down: returns whether the node is shutting down.
    """

    def __init__(
        self, disk: MutableMapping[str, bytes], runtime: SimulatedRuntime, timeline: Timeline, calls: Calls
    ) -> None:
        self.plan: RunPlan | None = None
        self.amended: Callable[[RunPlan], RunPlan] = lambda plan: plan
        self.running = False
        self.unstartable = False
        self.unwritable = False
        self.aside = False
        self._up = False
        self._refused: list[RefusedCall] = []
        self._restarts = 0
        self._waiting: dict[RuntimeCall, float] = {}
        self.owners: Callable[[], Evidence] = Evidence
        self.shuts_down: Callable[[], bool] = lambda: False
        self._disk = disk
        self._runtime = runtime
        self._timeline = timeline
        self._calls = calls

    def ready(self) -> bool:
        """Whether the process runs."""
        self._calls.read("shield.ready")
        return self.running

    def raised(self) -> bool:
        """Whether it stands between kubelet and runtime."""
        self._calls.read("shield.raised")
        return self._up and not self.aside

    def stands_by(self) -> bool:
        """Whether it has left the path, and is there again when the runtime is."""
        self._calls.read("shield.stands_by")
        return self._up and self.running and self.aside

    def raise_up(self) -> None:
        """Put it between kubelet and runtime."""
        with self._calls.effect("shield.raise_up"):
            if not self.running:
                raise StepFailed("the shield cannot be raised because its process does not run")
            self._up = True

    def lower(self) -> None:
        """Take it away."""
        with self._calls.effect("shield.lower"):
            if self._up and self._runtime.broken and not self.aside:
                raise StepFailed("cannot lower the shield because the runtime does not answer")
            self._up = False

    def clear(self) -> None:
        """Take it away for good."""
        with self._calls.effect("shield.clear"):
            self._up = False

    def refused(self) -> tuple[RefusedCall, ...]:
        """What it has refused since boot."""
        return tuple(self._refused)

    def waiting(self) -> int:
        """How many calls are held back."""
        now = self._timeline.monotonic
        waits = [now < first + PATIENCE_SECONDS or self.unwritable for first in self._waiting.values()]
        return sum(waits) if self.running else 0

    def restarts(self) -> int:
        """How often the runtime was restarted under it."""
        return self._restarts

    def start(self) -> None:
        """Start the process.

        Raises:
            StepFailed: it cannot be started.
        """
        if self.unstartable or self.plan is None:
            raise StepFailed("cannot start the shield because its program cannot be executed, or finds no run")
        self.running = True

    def stop(self) -> None:
        """End the process, which takes itself away first."""
        self.running = self._up = False
        self._waiting.clear()

    def runtime_restarted(self) -> None:
        """The runtime has taken its path back; a live process raises itself again."""
        self._restarts += self._up and self.running
        self._up = self._up and self.running

    def power_off(self) -> None:
        """Forget everything: it is all in memory."""
        self.stop()
        self._refused.clear()
        self._restarts = 0

    def refuses(self, call: RuntimeCall) -> bool:
        """Whether a call of the kubelet does not reach the runtime, or not yet: the kubelet calls again and again."""
        if not self._up:
            return False
        if self.aside or not self.running:
            return True
        if self.plan is None:
            raise RuntimeError("a shield that runs has read a plan")
        living = self._runtime.living(everywhere=True)
        shielded = Shielded.of(self.amended(self.plan))
        listed = [stored.instance for stored in self._runtime.containers.values()]
        harmed = shielded.harmed_by(call, living.__contains__, lambda _: None)
        if harmed is not None and shielded.may_have_ended(harmed):
            of_pod = [each for each in listed if each.sandbox_id == harmed.sandbox]
            harmed = shielded.harmed_by(call, living.__contains__, lambda _: None, of_pod)
        owners = self.owners().with_manifests(shielded.plan.owned, lambda path: digests_of(readable(self._disk, path)))
        if harmed is None or self.shuts_down() or shielded.excuse(harmed, owners) is not None:
            return False
        first = self._waiting.setdefault(call, self._timeline.monotonic)
        if self._timeline.monotonic < first + PATIENCE_SECONDS:
            return True
        if not self.unwritable:
            self.refuse(harmed.label, call.container or call.sandbox or "", method=call.method, wanted=harmed.wanted)
        return True

    def refuse(
        self,
        label: str,
        instance: str,
        *,
        method: Method = Method.STOP_CONTAINER,
        wanted: str = "stop",
        caller: str = "",
    ) -> None:
        """Write down that a call was refused."""
        at, now = self._timeline.wall.isoformat(), self._timeline.awake_at(self._timeline.monotonic).seconds
        self._refused.append(
            RefusedCall(
                at=at, monotonic=now, method=method, instance=instance, label=label, wanted=wanted, caller=caller
            )
        )
