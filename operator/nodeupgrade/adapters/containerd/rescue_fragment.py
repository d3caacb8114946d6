"""Shell functions with which the rescue script restores containerd's stored hashes through ``curl``.

See docs/decisions/rescue.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from google.protobuf.any_pb2 import Any

from nodeupgrade.adapters.containerd import metadata
from nodeupgrade.adapters.containerd.client import NAMESPACE, UPDATE, update_extension
from nodeupgrade.adapters.cri import Call, framed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.domain.node.run.rescue_script import RescueFragment
from nodeupgrade.domain.node.run.shell import function, piped
from nodeupgrade.ports.node.runtime import BeforeImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The calls that the rescue script sends to containerd's socket.

    Attributes:
        restore: one call per container; repeating one is harmless.
        listing: the call that lists the running containers.
        wrong: byte strings of the new hashes; the answer to ``listing`` contains one while containerd serves it.
    """

    socket: str
    restore: tuple[Call, ...]
    listing: Call
    wrong: tuple[bytes, ...]


def remedy(socket: str, listing: Call, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> Remedy:
    """Return the updates that HashStore.restore() makes, encoded for the wire."""
    restore, wrong = [], []
    for image, after in changes:
        value = Any(type_url=image.encoding, value=image.data)
        request = update_extension(metadata.EXTENSION, image.container_id, value)
        restore.append(Call(path=UPDATE.path, frame=framed(request)))
        if after.container is not None and after.container != image.hashes.container:
            wrong.append(metadata.served_annotation(metadata.HASH_KEY, after.container))
    return Remedy(socket=socket, restore=tuple(restore), listing=listing, wrong=tuple(wrong))


def rendered(fix: Remedy) -> RescueFragment:
    """Return the remedy as shell functions."""
    lines = [
        f"socket={quote(fix.socket)}",
        "asks_with='a curl that speaks HTTP/2'",
        "trouble=''",
        *function("restore_hashes", (piped(f"restored {quote(c.path)}", c.frame) for c in fix.restore)),
        *function("listing", [piped(f"call {quote(fix.listing.path)}", fix.listing.frame)]),
        *function("wrong_hashes", [piped("base64 -d", b"\n".join(fix.wrong) + b"\n")]),
    ]
    return RescueFragment(restores=bool(fix.restore), text="\n".join(lines) + LOGIC)


_HEADERS = " ".join(f"--header '{key}: {value}'" for key, value in NAMESPACE)

LOGIC = (
    r"""
call() {
    base64 -d | curl -q --noproxy '*' --silent --show-error --max-time 10 \
        --http2-prior-knowledge --unix-socket "$socket" \
        --header 'content-type: application/grpc' --header 'te: trailers' HEADERS \
        --dump-header "$answers/head" --output "$answers/body" --data-binary @- "http://localhost$1" || return 1
    status=$(sed -n 's/^grpc-status: *\([0-9]*\).*/\1/p' "$answers/head" | tail -n 1)
    [ "$status" = 0 ]
}

# A container that is gone (status 5) needs no hash.
restored() {
    call "$1" && return 0
    trouble="status ${status:-none}"
    [ "${status:-}" = 5 ]
}

serves_new_hashes() {
    wrong_hashes > "$answers/wrong"
    [ -s "$answers/wrong" ] && grep -qaFf "$answers/wrong" "$answers/body"
}

can_ask() {
    curl -q --version 2> /dev/null | grep -q HTTP2
}
"""
).replace("HEADERS", _HEADERS)
