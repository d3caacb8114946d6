"""Progress reports of the lab, for different kinds of output."""

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """Receives progress; must be cheap and must not fail."""

    def say(self, text: str) -> None:
        """Report that something was started or finished."""

    def step(self, text: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` parts of the long work ``text`` are finished."""


class Quiet:
    """Discards everything."""

    def say(self, text: str) -> None:
        """Ignore the line."""

    def step(self, text: str, done: int, total: int) -> None:
        """Ignore the step."""


class Lines:
    """Plain lines for logs: every message, and long work at most every ``interval`` seconds."""

    def __init__(self, *, interval: float = 20) -> None:
        self._interval = interval
        self._spoken: dict[str, float] = {}

    def say(self, text: str) -> None:
        """Print one line with the time of day."""
        print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)

    def step(self, text: str, done: int, total: int) -> None:
        """Print a line at most every ``interval`` seconds."""
        now = time.monotonic()
        if now - self._spoken.get(text, now - self._interval) >= self._interval:
            self._spoken[text] = now
            self.say(f"{text}: {done} of {total}")


class Bars:
    """Lines above live progress bars, for a terminal."""

    def __init__(self) -> None:
        self._rich = RichProgress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(), console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        """Show the bars."""
        self._rich.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove the bars."""
        self._rich.stop()

    def say(self, text: str) -> None:
        """Print one line above the bars."""
        self._rich.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    def step(self, text: str, done: int, total: int) -> None:
        """Move the bar of ``text``, and remove it when the work is finished."""
        if text not in self._tasks:
            self._tasks[text] = self._rich.add_task(text, total=total)
        self._rich.update(self._tasks[text], completed=done, total=total)
        if done >= total:
            self._rich.remove_task(self._tasks.pop(text))
