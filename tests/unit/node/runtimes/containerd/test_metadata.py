"""The byte-surgical change of containerd's container metadata."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.containerd.metadata import TYPE_URL, StoredMetadata
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.inventory import StoredHashes

ID = ContainerId("cd293f00")
HASHES = st.from_regex(r"[1-9a-f][0-9a-f]{0,15}", fullmatch=True).map(HashValue)


def document(annotations: dict[str, str], **config: object) -> bytes:
    """A document as Go writes it: no blanks, and <, > and & escaped."""
    whole = {
        "Version": "v1",
        "Metadata": {"ID": ID, "Name": "c", "Config": {"annotations": annotations, **config}, "LogPath": "/x"},
    }
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "surrogatepass")


@given(
    old=HASHES,
    new=HASHES,
    others=st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=4),
    command=st.lists(st.text(max_size=30), max_size=4),
)
def test_only_the_bytes_of_the_hash_change(
    old: HashValue, new: HashValue, others: dict[str, str], command: list[str]
) -> None:
    annotations = {"a": '"io.kubernetes.container.hash":"' + old + '"'} | others | {HASH_KEY: old}
    data = document(annotations, command=command, log_path="main/0.log")

    result = StoredMetadata(ID, data, TYPE_URL).rewritten(StoredHashes(container=new))

    assert json.loads(result)["Metadata"]["Config"]["annotations"] == annotations | {HASH_KEY: new}
    assert StoredMetadata(ID, result, TYPE_URL).rewritten(StoredHashes(container=old)) == data
    head, tail = data.split(f'"{HASH_KEY}":"{old}"'.encode())
    assert (result.startswith(head), result.endswith(tail)) == (True, True)
    assert len(result) - len(data) == len(new) - len(old)


@given(old=HASHES, second=HASHES, new=HASHES, second_new=HASHES)
def test_both_annotations_are_changed_independently(
    old: HashValue, second: HashValue, new: HashValue, second_new: HashValue
) -> None:
    data = document({HASH_KEY: old, HASH_WITHOUT_RESOURCES_KEY: second})

    result = StoredMetadata(ID, data, TYPE_URL).rewritten(StoredHashes(container=new, without_resources=second_new))

    assert StoredMetadata(ID, data, TYPE_URL).hashes() == StoredHashes(container=old, without_resources=second)
    assert StoredMetadata(ID, result, TYPE_URL).hashes() == StoredHashes(container=new, without_resources=second_new)


GOOD = document({HASH_KEY: "aaaa0000"})


@pytest.mark.parametrize(
    ("type_url", "data", "why"),
    [
        (f"type.googleapis.com/{TYPE_URL}", GOOD, "its type is"),
        (TYPE_URL, b"", "not a JSON object"),
        (TYPE_URL, GOOD[:-3], "not a JSON object"),
        (TYPE_URL, b"[]", "not a JSON object"),
        (TYPE_URL, b'{"Version":"v1"}', "no Version, Metadata and ID"),
        (TYPE_URL, b'{"Version":"v1","Metadata":{"ID":"cd293f00"}}', "no container configuration"),
        (TYPE_URL, GOOD.replace(b"v1", b"v2"), "version is 'v2'"),
        (TYPE_URL, GOOD.replace(b"cd293f00", b"other"), "belongs to container other"),
        (TYPE_URL, document({HASH_KEY: "XYZ"}), "not a hash"),
        (TYPE_URL, document({HASH_KEY: "0" * 17}), "not a hash"),
        (TYPE_URL, GOOD.replace(b'"aaaa0000"', b"71234"), "not a hash"),
        (TYPE_URL, GOOD.replace(b"aaaa", rb"\u0061aaa"), "not a hash"),
        (TYPE_URL, GOOD.replace(b'"annotations"', b'"annotations":{},"annotations"'), "annotations occurs twice"),
        (TYPE_URL, b"[" * 100_000, "not a JSON object"),
        (TYPE_URL, b'{"a":' + b"[" * 100_000, "not a JSON object"),
    ],
)
def test_anything_odd_is_refused(type_url: str, data: bytes, why: str) -> None:
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredMetadata(ID, data, type_url).hashes()
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredMetadata(ID, data, type_url).rewritten(StoredHashes(container=HashValue("b1")))


def test_a_wanted_value_that_is_no_hash_is_refused() -> None:
    with pytest.raises(UnexpectedMetadata, match="is not a hash"):
        StoredMetadata(ID, GOOD, TYPE_URL).rewritten(StoredHashes(container=HashValue('b","x":"')))


def test_a_replacement_that_changes_another_byte_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof stands apart from the replacement."""
    damage = lambda text, *_: text.data.replace(b"aaaa0000", b"b1").replace(b"/x", b"/y")  # noqa: E731
    monkeypatch.setattr(StoredMetadata, "_with", damage)

    with pytest.raises(UnexpectedMetadata, match="more than the hash"):
        StoredMetadata(ID, GOOD, TYPE_URL).rewritten(StoredHashes(container=HashValue("b1")))


def test_a_container_without_hashes_is_left_as_it_is() -> None:
    data = document({"io.kubernetes.container.restartCount": "0"})
    assert StoredMetadata(ID, data, TYPE_URL).hashes() == StoredHashes(container=None)
    assert StoredMetadata(ID, data, TYPE_URL).rewritten(StoredHashes(container=HashValue("b1"))) == data
