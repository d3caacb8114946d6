"""Shell functions with which the rescue script restores containerd's stored hashes through ``curl``.

See docs/decisions/rescue.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from google.protobuf.any_pb2 import Any

from nodeupgrade.adapters.containerd.store import NAMESPACE, UPDATE, update_of
from nodeupgrade.adapters.cri.connection import Call, framed
from nodeupgrade.adapters.cri.stored import questions, wrong_hashes
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.domain.node.rescue_script import RescueFragment, function, piped
from nodeupgrade.ports.runtime import BeforeImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The calls that the rescue script sends to containerd's socket."""

    socket: str
    restore: tuple[Call, ...]  # one call per container; repeating one is harmless
    listing: Call  # the call that lists the running containers
    # byte strings of the new hashes; the answer to ``listing`` contains one while containerd serves it
    wrong: tuple[bytes, ...]


def remedy(socket: str, listing: Call, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> Remedy:
    """Return the updates that MetadataStore.restore() makes, encoded for the wire."""
    all_changes = tuple(changes)
    restore = []
    for image, _ in all_changes:
        value = Any(type_url=image.encoding, value=image.data)
        restore.append(Call(path=UPDATE.path, frame=framed(update_of(image.container_id, value))))
    return Remedy(socket=socket, restore=tuple(restore), listing=listing, wrong=wrong_hashes(all_changes))


def rendered(fix: Remedy) -> RescueFragment:
    """Return the remedy as shell functions."""
    lines = [
        *questions(fix.socket, fix.listing, fix.wrong, metadata=NAMESPACE),
        *function("restore_hashes", (piped(f"restored {quote(c.path)}", c.frame) for c in fix.restore)),
    ]
    return RescueFragment(restores=bool(fix.restore), text="\n".join(lines) + LOGIC)


LOGIC = r"""
# A container that is gone (status 5) needs no hash.
restored() {
    call "$1" && return 0
    trouble="status ${status:-none}"
    [ "${status:-}" = 5 ]
}
"""
