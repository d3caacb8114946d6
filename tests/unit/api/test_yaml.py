"""YAML from anybody: read as Kubernetes reads it, or refused before it costs anything."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.yaml import DEEPEST, read_all, read_first, read_one, write_one

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: 0x_", {"a": "0x_"}),
        ("a: 0x1F", {"a": 31}),
        ("a: 010", {"a": 8}),
        ("a: 08", {"a": 8}),
        ("a: 0b11", {"a": 3}),
        ("a: -_8", {"a": -8}),
        ("a: .5_", {"a": ".5_"}),
        ("a: +.5", {"a": 0.5}),
        ("a: .5_0", {"a": 0.5}),
        ("a: 18446744073709551615", {"a": 18446744073709551615}),
        ("a: 18446744073709551616", {"a": 18446744073709552000}),
        ("a: 1_000", {"a": 1000}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 1:30.5", {"a": "1:30.5"}),
        ("a: =", {"a": "="}),
        ("=: 1", {"=": 1}),
        ("a: <<", {"a": "<<"}),
        ("[<<, =]", ["<<", "="]),
        ("a: 1e9", {"a": 1_000_000_000}),
        ("a: 5E+8", {"a": 500_000_000}),
        ("a: -1_0e1", {"a": -100}),
        ("a: 1.5e3", {"a": 1500}),
        ("a: 1.0", {"a": 1}),
        ("a: 123456789012345678901.0", {"a": 123456789012345680000}),
        ("a: 1e21", {"a": 1e21}),
        ("a: 25e-1", {"a": 2.5}),
        ("a: 1e400", {"a": "1e400"}),
        ("a: 1e", {"a": "1e"}),
        ("a: e9", {"a": "e9"}),
        ("a: _1e9", {"a": "_1e9"}),
        ("a: '1e9'", {"a": "1e9"}),
        ("a: y", {"a": True}),
        ("a: [N, 0.0, -0.0, 1e-400]", {"a": [False, 0, 0, 0]}),
        ("{a: 1, <<: {a: 2}}", {"a": 2}),
        ("[&x [&x 1], *x]", [[1], 1]),
        ("a: 0b+1", {"a": 1}),
        ("a: ! 0x1F", {"a": "0x1F"}),
        ("a: !!float 5", {"a": 5}),
        ("{0x10: a, 1e20: b, 1e300: c, 16777217.0: d}", {"16": "a", "1e+20": "b", ".inf": "c", "1.6777216e+07": "d"}),
        ("a: '5'", {"a": "5"}),
        ("a: !!str 5", {"a": "5"}),
        ("a: !!binary aGk=", {"a": "hi"}),
        ("{1: a, 1.50: b, on: c, '': e}", {"1": "a", "1.5": "b", "true": "c", "": "e"}),
        ("b: &b {x: 1, z: 2}\nc: {<<: *b, z: 3}", {"b": {"x": 1, "z": 2}, "c": {"x": 1, "z": 3}}),
        ("[&a {x: 1}, &b {x: 2, z: 0}, {<<: [*a, *b]}]", [{"x": 1}, {"x": 2, "z": 0}, {"x": 1, "z": 0}]),
        ("", None),
        ("# nothing", None),
        ("a: 1\na: 2", {"a": 2}),
        (f"a: {'9' * 5000}", {"a": "9" * 5000}),
    ],
)  # fmt: skip
def test_what_kubernetes_reads(text: str, value: Any) -> None:
    assert read_one(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: [1]",
        "---\na: [1]\n---\n",
        "a: [1]\n---\nb: 2\n",
        "a: [1]\n---\n{",
        '{\n\t"a":\t[\n\t\t1\n\t]\n}\n',
        "a: [1]\t# one",
        "\ufeffa: [1]",
    ],
)
def test_the_first_document_counts_for_kubelets(text: str) -> None:
    assert read_first(text.encode()) == {"a": [1]}
    assert read_first(text) == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(LAUGHS, "expand to more than", id="billion laughs"),
        pytest.param("[" * 10_000, f"more than {DEEPEST} levels deep", id="deep lists"),
        pytest.param("- " * 10_000 + "x", f"more than {DEEPEST} levels deep", id="deep on one line"),
        pytest.param("a: &a [*a]", "contains the alias", id="part of itself"),
        pytest.param("a: *b", "no anchor", id="no anchor"),
        pytest.param("a: {<<: 1}", "takes a map", id="merging a number"),
        pytest.param("? [a]\n: 1", "not a string", id="a list for a key"),
        pytest.param("a: !!python/object/apply:os.system [id]", "does not exist", id="another language's type"),
        pytest.param("a: !mine 5", "does not exist", id="a type of one's own"),
        pytest.param("a: !!binary 'x'", "base64", id="no base64"),
        pytest.param("a: 1\n---\nb: 1", "more than one document", id="two documents"),
        pytest.param("a: .inf", "no infinity", id="what JSON cannot express"),
        pytest.param("~: 1", "not a string", id="nothing for a key"),
        pytest.param("1: a\n'1': b", "left to chance", id="two keys that are one"),
        pytest.param("a: !!int x", "not of the type", id="another type than it says"),
        pytest.param("%YAML 1.2\n---\na: 1", "YAML 1.1", id="another YAML"),
        pytest.param("a:\n\ufeff b", "byte order mark", id="a mark within"),
        pytest.param("a: \x00", "NUL|not allowed", id="a NUL"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError, match=problem):
        read_one(text)
    if "document" not in problem:
        with pytest.raises(yaml.YAMLError, match=problem):
            list(read_all(text))


@pytest.mark.parametrize(
    "text",
    ["a: *hunter2", "a: &hunter2 [*hunter2]", "a: !hunter2 5", "a: !hunter2 [5]", "a: 'hunter2", "a: hunter2: 5"],
)
def test_no_value_is_repeated_in_an_error(text: str) -> None:
    """Whoever reads it may not be allowed to read the file."""
    with pytest.raises(yaml.YAMLError) as refused:
        read_first(text)
    assert "line 1" in str(refused.value)
    assert "hunter2" not in f"{refused.value} {refused.value!r}"


def test_aliases_within_reason_pass() -> None:
    text = "base: &base {a: 1, b: [1, 2]}\nall:\n" + "- *base\n" * 1000
    assert read_one(text)["all"] == [{"a": 1, "b": [1, 2]}] * 1000
    assert len(list(read_all("a: &a 1\nb: *a\n---\n" * 3))) == 4


def test_places_are_those_of_the_file() -> None:
    (read,) = read_all("a:\n  - b: 1\n    c: {d: 2}\n  - e\n", lines=True)
    assert (read.line, read.lines, read["a"].lines, read["a"][0].lines) == (1, {"a": 1}, [2, 4], {"b": 2, "c": 3})


# Without line separators (Zl, Zp), which Go's encoder of JSON always escapes.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    """What Kubernetes' own tools write comes back as it was, and so does what we write."""
    assert read_one(json.dumps(value, ensure_ascii=False)) == value
    assert read_one(write_one(value)) == value


def test_text_that_go_takes_for_a_number_is_quoted() -> None:
    assert write_one({"hash": "12345e67", "name": "web", "count": 3}) == "hash: '12345e67'\nname: web\ncount: 3\n"
