"""Terms of leaders that no election has given."""

from dataclasses import dataclass


@dataclass
class FixedTerm:
    """A leader's term that stays as it is, whatever Leases say; notes the later terms that it has met."""

    epoch: str
    surpassed: int = 0

    def step_down(self, term: int) -> None:
        self.surpassed = max(self.surpassed, term)
