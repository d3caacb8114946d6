"""The gRPC calls with which the rescue script puts containerd's stored hashes back, through ``curl``.

See docs/decisions/rescue.md.
"""

from collections.abc import Iterable
from shlex import quote

from google.protobuf.any_pb2 import Any

from nodeupgrade.node.host.shell import define_function, piped_command
from nodeupgrade.node.runtimes.containerd.hash_store import NAMESPACE, UPDATE, update_of
from nodeupgrade.node.runtimes.cri.connection import Call, frame_message
from nodeupgrade.node.runtimes.cri.rescue_calls import query_functions
from nodeupgrade.node.runtimes.runtime import BeforeImage, RescueFragment


def restore_calls(images: Iterable[BeforeImage]) -> tuple[Call, ...]:
    """Return the calls that MetadataStore.restore() makes, encoded for the wire; repeating one is harmless."""
    requests = (update_of(each.container_id, Any(type_url=each.encoding, value=each.data)) for each in images)
    return tuple(Call(path=UPDATE.path, frame=frame_message(request)) for request in requests)


def render(socket: str, listing: Call, restore: tuple[Call, ...], wrong: Iterable[bytes]) -> RescueFragment:
    """Return the shell functions that make these calls; ``wrong`` are the new hashes as they are listed."""
    restored = (piped_command(f"restored {quote(call.path)}", call.frame) for call in restore)
    lines = [*query_functions(socket, listing, wrong, metadata=NAMESPACE), *define_function("restore_hashes", restored)]
    return RescueFragment(restores=bool(restore), text="\n".join(lines) + LOGIC)


LOGIC = r"""
# A container that is gone (status 5) needs no hash.
restored() {
    call "$1" && return 0
    trouble="status ${status:-none}"
    [ "${status:-}" = 5 ]
}
"""
