"""The byte-surgical change of the file in which CRI-O stores a container's specification."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.crio.metadata import INNER, StoredSpecification
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.crio_storage import go_json, specification

ID = ContainerId("cd293f00")
HASHES = st.from_regex(r"[1-9a-f][0-9a-f]{0,15}", fullmatch=True).map(HashValue)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def document(annotations: dict[str, str], *, env: tuple[str, ...] = (), outside: bool = True) -> bytes:
    made = specification(ID, annotations, sandbox="s", env=env)
    if not outside:
        for key in annotations:
            del made["annotations"][key]
    return go_json(made, indent=True).encode()


def changed(data: bytes, change: Any) -> bytes:
    whole = json.loads(data)
    change(whole)
    return go_json(whole, indent=True).encode()


@given(
    old=HASHES,
    new=HASHES,
    others=st.dictionaries(TEXTS, TEXTS, max_size=4),
    env=st.lists(TEXTS, max_size=4).map(tuple),
    outside=st.booleans(),
)
def test_only_the_bytes_of_the_hash_change(
    old: HashValue, new: HashValue, others: dict[str, str], env: tuple[str, ...], outside: bool
) -> None:
    annotations = others | {HASH_KEY: old}
    data = document(annotations, env=env, outside=outside)

    result = StoredSpecification(ID, data).rewritten(StoredHashes(container=new))

    assert json.loads(json.loads(result)["annotations"][INNER]) == annotations | {HASH_KEY: new}
    assert StoredSpecification(ID, result).hashes() == StoredHashes(container=new)
    assert StoredSpecification(ID, result).rewritten(StoredHashes(container=old)) == data
    assert len(result) - len(data) == (1 + outside) * (len(new) - len(old))
    whole = json.loads(data)
    whole["annotations"] |= {INNER: json.loads(result)["annotations"][INNER]} | ({HASH_KEY: new} if outside else {})
    assert json.loads(result) == whole


@given(old=HASHES, second=HASHES, new=HASHES, second_new=HASHES)
def test_both_annotations_are_changed_independently(
    old: HashValue, second: HashValue, new: HashValue, second_new: HashValue
) -> None:
    data = document({HASH_KEY: old, HASH_WITHOUT_RESOURCES_KEY: second})

    result = StoredSpecification(ID, data).rewritten(StoredHashes(container=new, without_resources=second_new))

    assert StoredSpecification(ID, data).hashes() == StoredHashes(container=old, without_resources=second)
    assert StoredSpecification(ID, result).hashes() == StoredHashes(container=new, without_resources=second_new)


GOOD = document({HASH_KEY: "aaaa0000"})


def without(name: str) -> bytes:
    return changed(GOOD, lambda whole: whole["annotations"].pop(f"io.kubernetes.cri-o.{name}"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a JSON object"),
        (GOOD[:-3], "not a JSON object"),
        (GOOD + b"{}", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{}", "no annotations"),
        (b'{"annotations": null}', "no annotations"),
        (GOOD.replace(b'"annotations"', b'"annotations": {}, "annotations"', 1), "annotations occurs twice"),
        *((without(name), f"needs to find it again: {name}") for name in ("Annotations", "Created", "SandboxID")),
        (changed(GOOD, lambda w: w["annotations"].update({"io.container.manager": "libpod"})), "managed by libpod"),
        (changed(GOOD, lambda w: w["annotations"].update({"io.container.manager": []})), "managed by"),
        (changed(GOOD, lambda w: w["annotations"].update({INNER: "{"})), "not a JSON object"),
        (changed(GOOD, lambda w: w["annotations"].update({INNER: "[]"})), "not a JSON object"),
        (changed(GOOD, lambda w: w["annotations"].update({INNER: 7})), "not a text"),
        (changed(GOOD, lambda w: w["annotations"].update({INNER: {}})), "not a text"),
        (changed(GOOD, lambda w: w["annotations"].update({HASH_KEY: "bbbb"})), "in one place and bbbb in the other"),
        (document({HASH_KEY: "XYZ"}), "not a hash"),
        (document({HASH_KEY: "0" * 17}), "not a hash"),
        (GOOD.replace(b"aaaa0000", rb"\u0061aaa0000"), "escapes"),
        (document({HASH_KEY: "a1"}, outside=False).replace(b"a1", rb"\u00611"), "escapes"),
        (changed(GOOD, lambda w: w["annotations"].update({HASH_KEY: 7123})), "not a hash"),
    ],
)
def test_anything_odd_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredSpecification(ID, data).hashes()
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredSpecification(ID, data).rewritten(StoredHashes(container=HashValue("b1")))


def test_an_annotation_of_the_pod_is_not_taken_for_the_copy_of_a_hash() -> None:
    """CRI-O keeps the pod's annotations beside the kubelet's."""
    data = changed(GOOD, lambda w: w["annotations"].update({HASH_WITHOUT_RESOURCES_KEY: "aaaa0000"}))
    stored = StoredSpecification(ID, data)

    result = stored.rewritten(StoredHashes(container=HashValue("b1"), without_resources=HashValue("c2")))

    assert stored.hashes() == StoredHashes(container=HashValue("aaaa0000"))
    assert json.loads(result)["annotations"][HASH_WITHOUT_RESOURCES_KEY] == "aaaa0000"


def test_a_wanted_value_that_is_no_hash_is_refused() -> None:
    with pytest.raises(UnexpectedMetadata, match="is not a hash"):
        StoredSpecification(ID, GOOD).rewritten(StoredHashes(container=HashValue('b","x":"')))


def test_a_container_without_hashes_is_left_as_it_is() -> None:
    data = document({"io.kubernetes.container.restartCount": "0"})
    assert StoredSpecification(ID, data).hashes() == StoredHashes(container=None)
    assert StoredSpecification(ID, data).rewritten(StoredHashes(container=HashValue("b1"))) == data
