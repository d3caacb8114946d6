"""Campaigns for the Lease, keeps it, and says at any moment whether this process may write."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import LEASES, ConflictError, KubeApi, NotFoundError
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.leadership.election import (
    RENEW_WITHIN,
    RETRY,
    Contender,
    Create,
    LeaseObservation,
    LeaseRecord,
    Update,
    Yield,
    decide,
    observe,
    released,
)
from nodeupgrade.fleet.leadership.lease import epoch_of, micro_time, read, render

LEASE_NAME = "nodeupgrade-operator"

BELIEVED = 1000
"""How many terms a mark may be ahead of the Lease, which may have been deleted and created again."""

SOON = 0.2
"""Seconds after which to look again if another contender has just written the Lease."""


@dataclass(frozen=True, slots=True)
class ElectionClock:
    """Clocks and sleep of a contender; tests replace them."""

    monotonic: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  # passes while suspended, too
    utcnow: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Elector:
    """One contender for the Lease in the operator's namespace.

    Args:
        kube: The API server. Its requests must end within a few seconds and must not be retried: a renewal that
            arrives late is worth nothing.
        identity: Name of this process; never used by another one, not even by the next process of the same pod.
        on_standby: Called with why this process does not lead, whenever that changes.
    """

    def __init__(
        self,
        kube: KubeApi,
        namespace: str,
        identity: str,
        *,
        on_standby: Callable[[str], None] = lambda _reason: None,
        clock: ElectionClock | None = None,
    ) -> None:
        self._kube = kube
        self._leases = LEASES.within(namespace)
        self._identity = identity
        self._on_standby = on_standby
        self._clock = clock or ElectionClock()
        self._observed: LeaseObservation | None = None
        self._version: str | None = None
        self._last_term = 0
        self._term = 0
        self._held_until: float | None = None
        self._reported = ""

    @property
    def epoch(self) -> str:
        """The current term of office; differs from every other term of this and every other process."""
        return epoch_of(self._term, self._identity)

    def step_down(self, term: int) -> None:
        """Stop leading, since objects bear the mark of this term; the next one is later.

        Of a term that is far ahead, no more than ``BELIEVED`` is believed at once: real ones are counted in the Lease.
        """
        self._last_term = max(self._last_term, min(term, self._term + BELIEVED))
        self._held_until = None

    def may_write(self) -> bool:
        """Report whether this process leads for certain: nobody else can have taken the Lease yet."""
        return self._held_until is not None and self._clock.monotonic() < self._held_until

    async def campaign(self) -> None:
        """Return once this process leads."""
        while (wait := await self._try()) is not None:
            await self._clock.sleep(wait)

    async def keep(self) -> None:
        """Renew the Lease; return as soon as this process does not lead any more."""
        while self.may_write():
            await self._clock.sleep(min(RETRY.total_seconds(), self._left()))
            if not self.may_write():
                break  # a later term is another one, also if it is ours
            try:
                async with asyncio.timeout(self._left()):
                    await self._try()
            except TimeoutError:
                break
        self._held_until = None

    async def release(self) -> None:
        """Give the Lease back, so that another contender need not wait until it expires."""
        held, self._held_until = self._held_until, None
        lease = None if self._observed is None else self._observed.lease
        if held is None or lease is None or lease.holder != self._identity:
            return
        try:
            await self._write(released(lease, micro_time(self._clock.utcnow())))
        except NodeUpgradeError as error:
            self._on_standby(f"the Lease expires by itself: {error}")

    def _left(self) -> float:
        return max(0.0, (self._held_until or 0.0) - self._clock.monotonic())

    async def _try(self) -> float | None:
        """Read the Lease, and write it if it is ours or free.

        Returns:
            None if this process leads now; otherwise, in how many seconds to look again.
        """
        try:
            return await self._act()
        except (ConflictError, NotFoundError):
            return SOON  # another contender was faster, or the Lease is gone
        except NodeUpgradeError as error:
            if self._observed is not None and self._observed.lease is None:
                # A missing Lease looks the same each time, so its absence must be seen throughout.
                self._observed = None
            self._report(f"cannot read or write the Lease: {error}")
            return RETRY.total_seconds()

    async def _act(self) -> float | None:
        lease = await self._read()
        began = self._clock.monotonic()
        self._observed = observe(self._observed, lease, began)
        me = Contender(identity=self._identity, last_term=self._last_term, leads=self.may_write())
        match decide(self._observed, me, began, micro_time(self._clock.utcnow())):
            case Yield(seconds=seconds):
                self._held_until = None
                self._report(f"{lease.holder} leads" if lease else "the Lease is gone, and its holder may lead on")
                return seconds
            case Create(lease=mine):
                await self._create(mine)
            case Update(lease=mine):
                await self._write(mine)
        # Counted from before the request: the others may have seen its effect at any time since.
        self._held_until = began + RENEW_WITHIN.total_seconds()
        self._reported = ""
        return None

    async def _create(self, lease: LeaseRecord) -> None:
        metadata = {"name": LEASE_NAME, "namespace": self._leases.namespace}
        spec = {name: value for name, value in render(lease).items() if value is not None}
        body = {"apiVersion": self._leases.api_version, "kind": self._leases.kind, "metadata": metadata, "spec": spec}
        self._learn(await self._kube.create(self._leases, body))

    async def _read(self) -> LeaseRecord | None:
        try:
            body = await self._kube.get(self._leases, LEASE_NAME)
        except NotFoundError:
            self._version = None
            return None
        self._version = body["metadata"]["resourceVersion"]
        lease = read(body)
        self._last_term = max(self._last_term, lease.transitions)
        return lease

    async def _write(self, lease: LeaseRecord) -> None:
        patch = {"spec": render(lease)}
        self._learn(await self._kube.merge(self._leases, LEASE_NAME, patch, resource_version=self._version))

    def _learn(self, body: Json) -> None:
        self._version = body["metadata"]["resourceVersion"]
        lease = read(body)
        self._last_term = max(self._last_term, lease.transitions)
        self._observed = LeaseObservation(lease=lease, since=self._clock.monotonic())
        if lease.holder == self._identity:
            self._term = lease.transitions

    def _report(self, reason: str) -> None:
        """Pass reason on once: a contender may look for days."""
        if reason != self._reported:
            self._reported = reason
            self._on_standby(reason)
