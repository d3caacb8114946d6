"""What adapters share about the hashes that a runtime stores with a container. Pure.

A document in which a runtime finds its containers again is never parsed and serialized again: hashes are replaced in
its text, and everything else is proven to be unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from shlex import quote
from typing import TypeAlias

from nodeupgrade.adapters.cri.client import HASH, HASH_KEY, HASH_WITHOUT_RESOURCES_KEY, changed, served_annotation
from nodeupgrade.adapters.cri.connection import Call
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.domain.node.rescue_script import function, piped
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.ports.runtime import BeforeImage

KEYS = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)


class OddMetadata(StepFailed):
    """Stored metadata has an unknown form and must not be changed."""


Complain: TypeAlias = Callable[[str], OddMetadata]
"""Returns the error for a reason, such as ``it has no annotations``."""


def odd(container_id: ContainerId, why: str, *, runtime: str) -> OddMetadata:
    """Return the error about the metadata of a container."""
    return OddMetadata(
        f"cannot change the stored hash of container {container_id} because {why}; "
        f"it was left as it is, report this with your version of {runtime}"
    )


def conflict(container_id: ContainerId, what: str) -> MetadataConflict:
    """Return the error about metadata that somebody else wrote meanwhile.

    Args:
        what: the metadata, such as ``configuration``.
    """
    return MetadataConflict(
        f"cannot change the stored hash of container {container_id} because its {what} is not what was read before; "
        "somebody else wrote it, and it was left as it is"
    )


def gone(container_id: ContainerId, *, runtime: str) -> ContainerGone:
    """Return the error about a container that the runtime does not have."""
    return ContainerGone(
        f"cannot change the stored hash of container {container_id} because {runtime} no longer holds it"
    )


def hash_in(values: Mapping[str, object], name: str, complain: Complain, kind: str = "annotation") -> HashValue | None:
    """Return a hash among annotations or labels; ``None`` if it is not there.

    Raises:
        OddMetadata: the value is not a hash.
    """
    if name not in values:
        return None
    value = values[name]
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise complain(f"its {kind} {name} is {value!r}, which is no hash")
    return HashValue(value)


def hashes_once(
    values: Mapping[str, object],
    data: bytes,
    entry: Callable[[str, str], bytes],
    complain: Complain,
    *,
    names: tuple[str, str] = KEYS,
    kind: str = "annotation",
) -> StoredHashes:
    """Return the hashes among annotations or labels, after proving that each is found in the text exactly once.

    Args:
        values: the annotations or labels.
        data: the text.
        entry: returns a name with its value as they are in the text.

    Raises:
        OddMetadata: a value is not a hash, or its place is not known.
    """
    container, without_resources = (hash_in(values, name, complain, kind) for name in names)
    for name, value in zip(names, (container, without_resources), strict=True):
        if value is not None and (count := data.count(entry(name, value))) != 1:
            raise complain(f"its {kind} {name} is found {count} times in the text instead of once")
    return StoredHashes(container=container, without_resources=without_resources)


def with_hashes(
    data: bytes,
    stored: StoredHashes,
    wanted: StoredHashes,
    complain: Complain,
    *,
    put: Callable[[bytes, str, HashValue, HashValue], bytes],
    rest: Callable[[bytes], object],
    names: tuple[str, str] = KEYS,
) -> bytes:
    """Return a document with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

    Args:
        put: replaces the old value of a name by the new one in the text.
        rest: returns what a document says besides its hashes.
        names: those of the two hashes in the document.

    Raises:
        OddMetadata: a wanted value is not a hash, or more than the hashes would change.
    """
    result = data
    try:
        for name, old, new in changed(stored, wanted, names):
            result = put(result, name, old, new)
    except ValueError as error:
        raise complain(str(error)) from error
    if rest(data) != rest(result):
        raise complain("replacing the hash would change more than the hash")
    return result


def require_other_hashes_only(restored: Callable[[], bytes], before: bytes, otherwise: MetadataConflict) -> None:
    """Require that what is stored differs from a before-image in nothing but hashes.

    Args:
        restored: returns what is stored with the hashes of the before-image.

    Raises:
        MetadataConflict: it differs in more.
    """
    try:
        if restored() == before:
            return
    except OddMetadata as error:
        raise otherwise from error
    raise otherwise


# Shell functions with which the rescue script asks a runtime through ``curl``: gRPC is HTTP/2.
#
# See docs/decisions/rescue.md.


def wrong_hashes(changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> tuple[bytes, ...]:
    """Return the new hashes as they stand in the answer to a listing while the runtime serves them."""
    return tuple(
        served_annotation(HASH_KEY, after.container)
        for image, after in changes
        if after.container is not None and after.container != image.hashes.container
    )


def questions(
    socket: str, listing: Call, wrong: Iterable[bytes], *, metadata: Iterable[tuple[str, str]] = ()
) -> Iterator[str]:
    """Yield the lines that define everything a RescueFragment needs, except ``restore_hashes``.

    Args:
        socket: path of the runtime's socket on the node.
        listing: the call that lists the running containers.
        wrong: see wrong_hashes().
        metadata: metadata of every call.
    """
    headers = " ".join(f"--header '{key}: {value}'" for key, value in metadata)
    yield f"socket={quote(socket)}"
    yield "asks_with='a curl that speaks HTTP/2'"
    yield "trouble=''"
    yield from function("listing", [piped(f"call {quote(listing.path)}", listing.frame)])
    yield from function("wrong_hashes", [piped("base64 -d", b"\n".join(wrong) + b"\n")])
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
