"""Tests that pinning a static Pod's UID makes exactly one insertion in its manifest, or none."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.node.plan.manifest_uid import COMMENT, NotEditableError, pin, unpin
from tests.builders.static_pod_manifests import PLAIN, REFUSED, UID, read


def is_insertion(before: bytes, after: bytes) -> bool:
    """Whether ``after`` is ``before`` with one piece added somewhere."""
    added = len(after) - len(before)
    return added > 0 and any(
        before[:at] == after[:at] and before[at:] == after[at + added :] for at in range(len(before) + 1)
    )


EDITABLE = {
    "block": PLAIN,
    "leading ---": f"---\n{PLAIN}",
    "comments": PLAIN.replace("metadata:\n", "metadata: # ours\n  # the name\n"),
    "no trailing newline": PLAIN.rstrip("\n"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "very deep indent": PLAIN.replace("  name: etcd\n  namespace", f"{' ' * 90}name: etcd\n{' ' * 90}namespace"),
    "metadata last": "kind: Pod\nspec: {containers: []}\nmetadata:\n  name: etcd",
    "flow within block": "kind: Pod\nmetadata: {name: etcd}\nspec: {containers: []}\n",
    "flow over lines": "kind: Pod\nmetadata: { # ours\n  name: etcd,\n}\nspec: {containers: []}\n",
    "JSON": json.dumps(read(PLAIN.encode())),
    "indented JSON": json.dumps(read(PLAIN.encode()), indent=2),
    "quoted keys": PLAIN.replace("metadata:", '"metadata":').replace("  name: etcd\n  name", "  'name': etcd\n  name"),
    "unicode": PLAIN.replace("metadata:\n", "metadata:\n  annotations: {note: 'Grüße 🐳'}\n"),
    "byte order mark": f"\ufeff{PLAIN}",
    "anchors elsewhere": f"{PLAIN}  volumes: &v []\n  again: *v\n",
    "anchored metadata": PLAIN.replace("metadata:", "metadata: &m"),
    "merge key in metadata": PLAIN.replace("metadata:\n", "metadata:\n  <<: {labels: {a: b}}\n"),
    "duplicate key below": PLAIN.replace("  name: etcd\n  name", "  name: first\n  name: etcd\n  name"),
    "two documents, of which kubelets read the first": f"{PLAIN}---\n{PLAIN}",
    "trailing ---": f"{PLAIN}---\n",
    "JSON indented with tabs": json.dumps(read(PLAIN.encode()), indent="\t"),
    "unicode JSON indented with tabs": json.dumps({**read(PLAIN.encode()), "a": "Grüße 🐳"}, indent="\t"),
    "tabs between a key and its value": PLAIN.replace("metadata:", "metadata:\t").replace("image: ", "image:\t"),
    "a uid elsewhere": PLAIN.replace("metadata:\n", "metadata:\n  ownerReferences: [{uid: other}]\n"),
}


@pytest.mark.parametrize("text", EDITABLE.values(), ids=EDITABLE.keys())
def test_the_uid_is_added_and_every_other_byte_stays(text: str) -> None:
    data = text.encode()

    pinned = pin(data, UID)

    before = read(data)
    assert read(pinned) == {**before, "metadata": {**before["metadata"], "uid": UID}}
    assert is_insertion(data, pinned)
    assert pin(pinned, UID) == pinned
    assert unpin(pinned) == data
    assert unpin(data) is None
    assert (COMMENT.encode() in pinned) == (b"\n" in pinned and b'"uid": ' not in pinned)
    if text.startswith("{"):
        document = json.loads(pinned)
        assert document["metadata"]["uid"] == UID, "JSON stays JSON: a kubelet reads it with another parser"


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_edited_with_certainty_is_refused(text: str) -> None:
    with pytest.raises(NotEditableError):
        pin(text.encode("latin-1" if "\xe9" in text else "utf-8"), UID)


@pytest.mark.parametrize(
    "text",
    [
        f"{PLAIN}  one: &x hunter2\n  two: &x hunter2\n",
        f"{PLAIN}  value: *hunter2\n",
        f"{PLAIN}  value: 'hunter2\n",
        json.dumps(read(PLAIN.encode()) | {"value": "hunter2"})[:-1],
    ],
    ids=["an anchor given twice", "no anchor", "no end", "no end of JSON"],
)
def test_no_value_is_repeated_in_what_says_why(text: str) -> None:
    """A manifest may hold secrets, and tasks show why it cannot be edited."""
    with pytest.raises(NotEditableError) as refused:
        pin(text.encode(), UID)
    assert "line" in str(refused.value)
    assert "hunter2" not in str(refused.value)


KEYS = st.sampled_from(["name", "labels", "annotations", "a b", "on", "ключ", "", "<", "- x", "uid2", "# no", "k: v"])
INTEGERS = st.integers(-(2**63), 2**64 - 1)
"""What Go reads as such: beyond, it takes `!!int` for an error."""
SCALARS = st.none() | st.booleans() | INTEGERS | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
PODS = st.fixed_dictionaries(
    {"kind": st.just("Pod"), "metadata": st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), "spec": VALUES},
    optional={"apiVersion": st.just("v1"), "status": VALUES},
)


STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([None, True, False]),
        "default_style": st.sampled_from([None, '"', "'", "|", ">"]),
        "indent": st.sampled_from([2, 4, 9]),
        "width": st.sampled_from([20, 80, 10_000]),
        "explicit_start": st.booleans(),
        "sort_keys": st.booleans(),
        "line_break": st.sampled_from(["\n", "\r\n"]),
    }
)


@settings(deadline=None, max_examples=60)
@given(PODS, STYLES)
def test_whatever_the_style_the_result_is_the_same_pod_plus_the_uid(
    body: dict[str, Any], style: dict[str, Any]
) -> None:
    data = yaml.safe_dump(body, allow_unicode=True, **style).encode()

    try:
        pinned = pin(data, UID)
    except NotEditableError:
        told = "only what begins with an empty key is too odd, or what kubelets take for broken JSON"
        assert "" in body["metadata"] or data.startswith(b"{"), told
        return
    assert read(pinned) == {**read(data), "metadata": {**read(data)["metadata"], "uid": UID}}
    assert is_insertion(data, pinned)
    assert unpin(pinned) == data


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(f"  {COMMENT}\n", "  # another comment\n").replace('"', "'"),
        lambda text: text.replace(f'  uid: "{UID}"\n', "").replace("spec:", f'  uid: "{UID}"\nspec:'),
        lambda text: text.replace(f'"{UID}"', UID),
    ],
    ids=["other quotes", "elsewhere", "no quotes"],
)
def test_only_what_was_written_here_is_taken_out(change: Callable[[str], str]) -> None:
    text = change(pin(PLAIN.encode(), UID).decode())

    assert UID in text
    assert unpin(text.encode()) is None


def test_what_an_older_version_wrote_is_taken_out_without_its_comment() -> None:
    assert unpin(pin(PLAIN.encode(), UID).replace(f"  {COMMENT}\n".encode(), b"")) == PLAIN.encode()
