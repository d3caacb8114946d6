"""Shell functions with which the rescue script calls a runtime through ``curl``. See docs/decisions/rescue.md."""

from collections.abc import Iterable, Iterator
from shlex import quote

from nodeupgrade.node.host.shell import define_function, piped_command
from nodeupgrade.node.runtimes.cri.connection import Call
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage


def listed_new_hashes(changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> tuple[bytes, ...]:
    """Return the new hashes as encoded in the answer to a listing."""
    return tuple(
        _served_annotation(HASH_KEY, after.container)
        for image, after in changes
        if after.container is not None and after.container != image.hashes.container
    )


def _served_annotation(key: str, value: str) -> bytes:
    """Return an annotation as encoded in a CRI response: in a protobuf map entry, the value follows its key."""
    return key.encode("ascii") + b"\x12" + bytes([len(value)]) + value.encode("ascii")


def query_functions(
    socket: str, listing: Call, wrong: Iterable[bytes], *, metadata: Iterable[tuple[str, str]] = ()
) -> Iterator[str]:
    """Yield the lines that define everything a RescueFragment needs, except ``restore_hashes``.

    Args:
        socket: path of the runtime's socket on the node.
        listing: the call that lists the running containers.
        wrong: see listed_new_hashes().
        metadata: metadata of every call.
    """
    headers = " ".join(f"--header '{key}: {value}'" for key, value in metadata)
    yield f"socket={quote(socket)}"
    yield "asks_with='a curl that speaks HTTP/2'"
    yield "trouble=''"
    yield from define_function("listing", [piped_command(f"call {quote(listing.path)}", listing.frame)])
    yield from define_function("wrong_hashes", [piped_command("base64 -d", b"\n".join(wrong) + b"\n")])
    yield LOGIC.replace("HEADERS", headers)


LOGIC = r"""
call() {
    base64 -d | curl -q --noproxy '*' --silent --show-error --max-time 10 \
        --http2-prior-knowledge --unix-socket "$socket" \
        --header 'content-type: application/grpc' --header 'te: trailers' HEADERS \
        --dump-header "$answers/head" --output "$answers/body" --data-binary @- "http://localhost$1" || return 1
    status=$(sed -n 's/^grpc-status: *\([0-9]*\).*/\1/p' "$answers/head" | tail -n 1)
    [ "$status" = 0 ]
}

serves_new_hashes() {
    wrong_hashes > "$answers/wrong"
    [ -s "$answers/wrong" ] && grep -qaFf "$answers/wrong" "$answers/body"
}

can_ask() {
    curl -q --version 2> /dev/null | grep -q HTTP2
}
"""
