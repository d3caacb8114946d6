"""How a shell and ``curl`` ask containerd, and put its stored hashes back: see docs/decisions/rescue.md."""

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
from nodeupgrade.ports.runtime import BeforeImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What has to be sent to containerd's socket.

    Attributes:
        restore: a call for each container; repeating one is harmless.
        listing: asks what containerd serves.
        wrong: byte strings, one of which is in the answer while a container serves its new hash.
    """

    socket: str
    restore: tuple[Call, ...]
    listing: Call
    wrong: tuple[bytes, ...]


def remedy(socket: str, listing: Call, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> Remedy:
    """The same updates that HashStore.restore() makes, as they go over the wire."""
    restore, wrong = [], []
    for image, after in changes:
        value = Any(type_url=image.encoding, value=image.data)
        request = update_extension(metadata.EXTENSION, image.container_id, value)
        restore.append(Call(path=UPDATE.path, frame=framed(request)))
        if after.container is not None and after.container != image.hashes.container:
            wrong.append(metadata.served_annotation(metadata.HASH_KEY, after.container))
    return Remedy(socket=socket, restore=tuple(restore), listing=listing, wrong=tuple(wrong))


def rendered(found: Remedy) -> RescueFragment:
    """The remedy as functions of a shell."""
    lines = [
        f"socket={quote(found.socket)}",
        "asks_with='a curl that speaks HTTP/2'",
        "trouble=''",
        *function("restore_hashes", (piped(f"restored {quote(c.path)}", c.frame) for c in found.restore)),
        *function("listing", [piped(f"call {quote(found.listing.path)}", found.listing.frame)]),
        *function("wrong_hashes", [piped("base64 -d", b"\n".join(found.wrong) + b"\n")]),
    ]
    return RescueFragment(restores=bool(found.restore), text="\n".join(lines) + LOGIC)


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
