"""Finds what CRI-O recorded as ended although it runs, and restores it while CRI-O is stopped."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.runtimes.crio.before_images import CONFIG, STATE, STOPPED, StoredContainer, StoredState, decode
from nodeupgrade.node.runtimes.crio.hash_store import SpecificationStore
from nodeupgrade.node.runtimes.crio.next_start import UNIT
from nodeupgrade.node.runtimes.runtime import BeforeImage


@dataclass(frozen=True, slots=True)
class EndedRecords:
    """The states in CRI-O's storage that may say of a container, or of its pod, that it ended."""

    store: SpecificationStore
    lives: Callable[[Process], bool]  # reports whether a process still runs, according to the kernel

    def reinstate(self, images: Iterable[BeforeImage], services: ServiceManager) -> frozenset[ContainerId]:
        """Stop CRI-O, restore its states of containers and pods that it wrongly considers ended, and start it."""
        every = tuple(images)
        self.tidy(every)
        taken = self.taken_for_ended(every)
        if taken:
            services.stop(UNIT)
            for image in taken:
                self.put_back(image)
            services.start(UNIT)
        return frozenset(image.container_id for image in taken)

    def tidy(self, images: Iterable[BeforeImage]) -> None:
        """Remove what an interrupted put_back() left beside the files of these images."""
        stored = list(map(decode, images))
        states = (each for one in stored for each in (one, one.sandbox) if each is not None)
        for path in dict.fromkeys(each.path(STATE) for each in states):
            self.store.files.tidy(path)

    def taken_for_ended(self, images: Iterable[BeforeImage]) -> tuple[BeforeImage, ...]:
        """Return the images of containers that CRI-O still has, and wrongly considers ended, or their pods."""
        wrong = ((image, decode(image)) for image in images if any(self._is_wrong(decode(image))))
        return tuple(image for image, before in wrong if self.store.files.read(before.path(CONFIG)) is not None)

    def put_back(self, image: BeforeImage) -> None:
        """Restore the states of the before-image where CRI-O recorded an end. CRI-O must be stopped."""
        before = decode(image)
        container, sandbox = self._is_wrong(before)
        if container:
            self.store.replace(before.path(STATE), before.state, image.container_id)
        if sandbox and before.sandbox is not None:
            self.store.replace(before.sandbox.path(STATE), before.sandbox.state, image.container_id)
            self.store.files.remove(before.sandbox.path(STOPPED))

    def _is_wrong(self, before: StoredContainer) -> tuple[bool, bool]:
        """Report whether CRI-O wrongly considers a container ended, and whether its pod, whose process lives."""
        container, pod = not before.ended and self._says_ended(before), before.sandbox
        # Asked after the record was read: it may have ended since somebody looked whether it runs.
        container = container and (before.process is None or self.lives(before.process))
        if pod is None or pod.process is None or not self.lives(pod.process):
            return container, False
        return container, self.store.files.read(pod.path(STOPPED)) is not None or self._says_ended(pod)

    def _says_ended(self, before: StoredState) -> bool:
        now = self.store.files.read(before.path(STATE))
        return now is not None and replace(before, state=now).ended
