"""Fields are found in the line in which they stand, whatever the file looks like."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.cli.inputs.documents import documents
from nodeupgrade.cli.program import CannotError

keys = st.sampled_from(["spec", "waves", "name", "linux-amd64", "x9"])
trees = st.recursive(
    st.just(None), lambda inner: st.dictionaries(keys, inner, min_size=1) | st.lists(inner, min_size=1), max_leaves=20
).filter(lambda tree: isinstance(tree, dict))


def numbered(tree: Any, numbers: Iterator[int]) -> Any:
    """Put a number of its own at every end."""
    if isinstance(tree, dict):
        return {key: numbered(value, numbers) for key, value in tree.items()}
    if isinstance(tree, list):
        return [numbered(value, numbers) for value in tree]
    return f"value-{next(numbers)}-"


def ends(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from ends(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from ends(value, f"{path}[{number}]")
    else:
        yield path, tree


@given(trees, st.sampled_from([None, 4]))
def test_every_field_is_found_in_its_line(tree: Any, indent: int | None) -> None:
    tree = numbered(tree, itertools.count())
    text = f"# before\n---\n{yaml.safe_dump(tree, indent=indent)}---\nkind: Other\n"
    first, second = documents(text, "it.yaml")
    assert (first.body, second.kind) == (tree, "Other")
    lines = text.splitlines()
    for path, value in ends(tree):
        assert value in lines[first.line(path) - 1]
        assert first.line(f"{path}.that.is[3].missing") == first.line(path)
    assert not list(first.repeated)


def test_items_of_a_list_are_documents_with_lines_of_their_own() -> None:
    upgrades = [{"kind": "NodeUpgrade", "metadata": {"name": name}} for name in ("a", "b")]
    text = json.dumps({"kind": "List", "items": upgrades}, indent=1)
    found = documents(text, "it.json")
    assert [each.name for each in found] == ["a", "b"]
    assert '"a"' in text.splitlines()[found[0].line("metadata.name") - 1]
    assert '"b"' in text.splitlines()[found[1].line("metadata.name") - 1]


def test_a_field_given_twice_is_told() -> None:
    (found,) = documents("spec:\n  a: 1\n  b: [{c: 1, c: 2}]\n  a: 3\n", "it.yaml")
    assert sorted(found.repeated) == [("spec.a", 4), ("spec.b[0].c", 3)]


@pytest.mark.parametrize("text", ["a: b: c", "{", "- [", "a: !!python/object:os.system {}", "\x00"])
def test_what_is_no_yaml_is_said_so(text: str) -> None:
    with pytest.raises(CannotError, match=r"cannot read it\.yaml because it is not YAML"):
        documents(text, "it.yaml")


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n"])
def test_nothing_is_nothing(text: str) -> None:
    assert documents(text, "it.yaml") == []
