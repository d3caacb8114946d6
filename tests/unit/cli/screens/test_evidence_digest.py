"""Anybody can compute the digest of evidence from what was printed, and every change of it shows."""

import hashlib
import json

from hypothesis import assume, given
from hypothesis import strategies as st

from nodeupgrade.api.json import Json
from nodeupgrade.cli.screens.evidence import sealed

thousandths = st.integers(0, 10**6).map(lambda number: number / 1000)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31)
    | st.integers(0, 10**6).map(lambda n: n / 1000)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text().filter(lambda name: name != "digest"), values, max_size=4)


@given(documents, documents)
def test_the_digest_is_of_the_content_and_of_nothing_else(one: Json, other: Json) -> None:
    again = json.loads(json.dumps(sealed(one)))
    assert sealed(again) == again, "sealing what is sealed changes nothing"
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert (sealed(one)["digest"] == sealed(other)["digest"]) is (one == other)


def test_it_is_what_jq_and_sha256sum_compute() -> None:
    """Fixed here as printed by: jq -cS 'del(.digest)' | sha256sum."""
    printed = '{"a":[1,0.911,null,true],"node":"web-ä","seconds":10}\n'
    document = {"seconds": 10.0, "node": "web-ä", "a": [1, 0.911, None, True]}
    assert sealed(document)["digest"] == f"sha256:{hashlib.sha256(printed.encode()).hexdigest()}"
