"""Places in a JSON text, compared with what a parser finds there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.node.runtimes.cri.json_places import LEAF, find, place_in_literal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LITERALS = st.one_of(TEXT, TEXT.map(json.dumps), TEXT.map(json.dumps).map(json.dumps))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | LITERALS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LITERALS, inner, max_size=3),
    max_leaves=8,
)
INDENTS = st.sampled_from([None, 0, "\t", 3])
ABSENT = "longer than any name"


@given(value=JSON, other=JSON, names=st.lists(LITERALS, min_size=2, max_size=3, unique=True), indent=INDENTS)
def test_a_value_is_found_where_it_stands(value: object, other: object, names: list[str], indent: int | None) -> None:
    text = json.dumps({names[1]: other, names[0]: {names[1]: value, names[0]: other}}, indent=indent)

    places = find(text, {names[0]: {names[1]: LEAF, ABSENT: LEAF}, ABSENT: {ABSENT: LEAF}})

    assert places.value(names[0], names[1]) == value
    assert places.spans.keys() == {(names[0],), (names[0], names[1])}
    assert (places.is_object(names[0]), places.has(ABSENT, ABSENT)) == (True, False)
    span = places.spans[names[0], names[1]]
    changed = json.loads(text[: span.start] + "7" + text[span.stop :])
    assert changed == {names[1]: other, names[0]: {names[1]: 7, names[0]: other}}


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "[]", "7", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":{"b":1}', '{"a" 1}', '{"a":1 "b":2}'),
        *('{"a":1,}', "{7:1}", "{,}", '{"a":1}}', '{"a":1} x', '\ufeff{"a":1}', "{'a':1}", '{"a":"\n"}', '{"a":"\\x"}'),
        *('{"a":1,"a":1}', '{"a":{"b":1,"b":2}}', '{"a":{"b":1},"a":2}', '{"c":' + "[" * 100_000),
    ],
)
def test_what_is_not_one_object_or_has_a_wanted_member_twice_has_no_places(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of many kinds; none other may escape
        find(text, {"a": {"b": LEAF}})


def test_members_that_nobody_wants_may_occur_twice() -> None:
    assert find('{"b":1,"b":2,"a":{"c":1,"c":2}}', {"a": {"b": LEAF}}).is_object("a")


@given(before=LITERALS, part=LITERALS, after=LITERALS, ascii_only=st.booleans())
def test_a_part_of_a_string_is_found_in_its_literal(before: str, part: str, after: str, ascii_only: bool) -> None:
    text = "  " + json.dumps(before + part + after, ensure_ascii=ascii_only)

    found = place_in_literal(text, 2, slice(len(before), len(before + part)))

    assert text[found] == json.dumps(part, ensure_ascii=ascii_only)[1:-1]
