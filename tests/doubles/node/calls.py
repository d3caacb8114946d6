"""Numbers every call of a port, and can interrupt it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeAlias

from nodeupgrade.node.failpoints.failpoints import Failpoint
from tests.doubles.node.timeline import Timeline

EFFECT_SECONDS = 0.001


class Crash(BaseException):
    """The executor dies. Not an Exception: nothing in the program may catch it.

    Attributes:
        reboot: whether the whole node dies with it.
        frozen: how many seconds it did nothing before.
    """

    def __init__(self, *, reboot: bool = False, frozen: float = 0.0) -> None:
        super().__init__("the node lost power" if reboot else "the executor was killed")
        self.reboot = reboot
        self.frozen = frozen


class Moment(StrEnum):
    """When an interruption strikes."""

    READING = "reading"
    BEFORE = "before"
    DURING = "during"
    """Only calls whose effect can be partial have this moment, such as a torn journal line."""
    AFTER = "after"


Interrupt: TypeAlias = Callable[[str, int, Moment], None]
"""Called with the name of a call, its number among the effects (or the readings), and the moment; may raise."""


def never(_name: str, _number: int, _moment: Moment) -> None:
    """Interrupt nothing."""


class Calls:
    """Numbers calls, lets them take time, and interrupts them on request.

    Attributes:
        interrupt: called at each moment of each call.
        watch: called after each effect, whether or not the call is then interrupted.
        effects: names of all effects so far; an effect's number is its index.
        readings: likewise for calls that change nothing.
        durations: how many seconds an effect takes, by name; a millisecond by default.
        passed: names of all failpoints passed so far.
        failpoints: what to do, once, when a failpoint is passed.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.interrupt: Interrupt = never
        self.watch: Callable[[], None] = lambda: None
        self.effects: list[str] = []
        self.readings: list[str] = []
        self.durations: dict[str, float] = {}
        self.passed: list[Failpoint] = []
        self.failpoints: dict[Failpoint, Callable[[], None]] = {}
        self._timeline = timeline
        self._once: dict[str, list[Callable[[], None]]] = {}

    def before(self, name: str, action: Callable[[], None]) -> None:
        """Run ``action`` once, right before the next effect of this name."""
        self._once.setdefault(name, []).append(action)

    def failpoint(self, name: Failpoint) -> None:
        """Pass a failpoint."""
        self.passed.append(name)
        self.failpoints.pop(name, lambda: None)()

    def read(self, name: str) -> None:
        """Record a call that changes nothing."""
        self.readings.append(name)
        self.interrupt(name, len(self.readings) - 1, Moment.READING)

    @contextmanager
    def effect(self, name: str, *, torn: Callable[[], None] | None = None) -> Iterator[None]:
        """Record a call whose effect is the block's body; ``torn`` is its partial effect if interrupted midway."""
        number = len(self.effects)
        self.effects.append(name)
        for action in self._once.pop(name, ()):
            action()
        self.interrupt(name, number, Moment.BEFORE)
        if torn is not None:
            try:
                self.interrupt(name, number, Moment.DURING)
            except BaseException:
                torn()
                raise
        self._timeline.advance(self.durations.get(name, EFFECT_SECONDS))
        yield
        self.watch()
        self.interrupt(name, number, Moment.AFTER)
