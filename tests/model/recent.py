"""A bounded memory of results."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Recent(Generic[K, V]):
    """Keeps at least the ``most`` results that were used last, and at most twice as many."""

    most: int
    _young: dict[K, V] = field(default_factory=dict)
    _old: dict[K, V] = field(default_factory=dict)

    def get(self, key: K) -> V | None:
        """Return a result, if it is kept."""
        if (known := self._young.get(key)) is None and (known := self._old.get(key)) is not None:
            self.keep(key, known)
        return known

    def keep(self, key: K, result: V) -> None:
        """Keep a result."""
        if len(self._young) >= self.most:
            self._old, self._young = self._young, {}
        self._young[key] = result

    def forget(self) -> None:
        """Forget everything."""
        self._young, self._old = {}, {}
