"""Find what the runtime of a container was told of its devices. Changes nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Self

from nodeupgrade.api.runtimes import BUNDLES
from nodeupgrade.node.host.device_rules import DeviceRule, rules_of_spec
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import Mount

SPECIFICATION = "config.json"
_ID = "[0-9a-f]{64}"
_CONTAINER = re.compile(rf"(?:.*-)?({_ID})\.scope")
_MOUNTED = re.compile(rf"(/.+)/{_ID}/(?:rootfs|(userdata)/shm)")
"""What runtimes mount in the bundle of a container, or of a pod."""
_OWNER, _ROOTS = "user_id=", "user_id=0"
"""Options of a mount by FUSE, which lets users mount at directories of theirs in the node's own table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specifications:
    """The OCI specifications of a node's containers, as their runtimes keep them."""

    files: FilesView
    places: tuple[tuple[PurePosixPath, str], ...]  # what is above and below the ID of a container

    @classmethod
    def of(cls, files: FilesView, table: Iterable[Mount]) -> Self:
        """Return those in the usual places, and in others that the node's mount table shows."""
        roots = (
            each for each in table if _ROOTS in each.options or not any(o.startswith(_OWNER) for o in each.options)
        )
        shown = (_MOUNTED.fullmatch(str(each.point)) for each in roots)
        usual = (place for each in BUNDLES.values() for place in each)
        places = dict.fromkeys((*usual, *((found[1], found[2] or "") for found in shown if found)))
        return cls(files=files, places=tuple((PurePosixPath(above), below) for above, below in places))

    def devices(self, unit: str) -> tuple[DeviceRule, ...]:
        """Return the devices that a container may use, by the name of its scope; none if that has no ID.

        A specification has the environment of its container, but no container that is allowed to start has one above
        LARGEST_READ.

        Raises:
            LookupError: there is no specification.
            ValueError: it is not understood.
            StepFailed: it cannot be read.
        """
        if (container := _CONTAINER.fullmatch(unit)) is None:
            return ()
        paths = (above / container[1] / below / SPECIFICATION for above, below in self.places)
        found = next((content for path in paths if (content := self.files.read(path)) is not None), None)
        if found is None:
            raise LookupError(f"its {SPECIFICATION} is not in {', '.join(str(above) for above, _ in self.places)}")
        return rules_of_spec(found)
