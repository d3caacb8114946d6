"""What an operator that takes no time itself would need for a fleet."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice


def ends(seconds: Iterable[float], in_flight: int) -> Iterator[float]:
    """Yield when nodes are done, the first one first, in seconds since the first ones began.

    A slot that gets free is given to the next node at once. Nodes that differ in what they take get out of step, so
    that the second ``in_flight`` nodes need longer than the first, even so.

    Args:
        seconds: What each node takes, in the order in which they begin.
        in_flight: How many slots there are.
    """
    waiting = iter(seconds)
    flying = list(islice(waiting, in_flight))
    heapq.heapify(flying)
    while flying:
        now = heapq.heappop(flying)
        yield now
        for each in islice(waiting, 1):
            heapq.heappush(flying, now + each)
