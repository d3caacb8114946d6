"""Tests how Pods are read one by one, in every format and in constant memory."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import click
import pytest

from nodeupgrade.cli.inputs.pod_stream import read_pods

PODS = [{"metadata": {"name": f"p{number}"}, "spec": {"n": number, "t": 'br"ace}]'}} for number in range(5)]
LIST = {"apiVersion": "v1", "items": PODS, "kind": "List", "metadata": {"resourceVersion": ""}}


class Pieces:
    """A stream that hands out its text in pieces of its own choice."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces

    def read(self, _size: int = -1, /) -> str:
        return next(self._pieces, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(LIST), id="list"),
        pytest.param(json.dumps(LIST, indent=4), id="list as kubectl indents it"),
        pytest.param(json.dumps({"metadata": {}, **LIST}), id="list with items last"),
        pytest.param("\n".join(map(json.dumps, PODS)), id="json lines"),
        pytest.param(json.dumps(PODS), id="array"),
        pytest.param("".join(f"---\n{json.dumps(pod)}\n" for pod in PODS), id="yaml documents"),
        pytest.param(f"# pods\n---\nitems: {json.dumps(PODS)}\n---\n", id="yaml list"),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_every_form_yields_the_same_pods(text: str, piece: int) -> None:
    pieces = (text[at : at + piece] for at in range(0, len(text), piece))
    assert list(read_pods(Pieces(pieces))) == PODS


@pytest.mark.parametrize("text", ['{"items": [', '{"spec": {}', "{]", '{"a": 1}}', '[{"a": 1} {"b": 2}]', "a: b: c"])
def test_broken_input_is_refused(text: str) -> None:
    with pytest.raises(click.ClickException, match="cannot read the pods because"):
        list(read_pods(io.StringIO(text)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("[" * 10_000, "nested too deeply", id="deep"),
        pytest.param('{"a": ' * 10_000, "nested too deeply", id="deep objects"),
        pytest.param("- " * 10_000, "more than 100 levels deep", id="deep YAML"),
        pytest.param(f'{{"a": {"9" * 5000}}}', "a number of 5000 digits", id="digits"),
        pytest.param('{"a": NaN}', "no number NaN", id="not a number"),
        pytest.param("a: \x00", "NUL", id="binary"),
        pytest.param("a: \udc80", "neither JSON nor YAML", id="no UTF-8"),
        pytest.param('{"a": ', "ends in the middle of an object", id="cut off"),
        pytest.param('{"kind": "List", "items": [{"kind": "Po', "ends in the middle", id="cut off in a text"),
        pytest.param('{"a": 1 "b": 2}', "expecting ',' (delimiter )?before '\"b\": 2}'", id="no JSON"),
    ],
)
def test_input_that_would_cost_too_much_is_refused(text: str, problem: str) -> None:
    with pytest.raises(click.ClickException, match=problem):
        list(read_pods(io.StringIO(text)))


@pytest.mark.parametrize("text", ["", "\n", "---\n"])
def test_no_input_is_no_pods(text: str) -> None:
    assert list(read_pods(io.StringIO(text))) == []


def cluster(size: int) -> Iterator[str]:
    container: dict[str, Any] = {"name": "c", "image": "i", "args": ["x" * 1000]}
    yield '{"apiVersion": "v1", "items": ['
    for number in range(size):
        pod = {"metadata": {"name": f"p{number}"}, "spec": {"containers": [container]}}
        yield ("," if number else "") + json.dumps(pod)
    yield '], "kind": "List"}'


def test_memory_does_not_grow_with_the_cluster() -> None:
    def peak(size: int) -> int:
        tracemalloc.start()
        count = 0
        for _ in read_pods(Pieces(cluster(size))):
            count += 1
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == size
        return highest

    peak(100)
    assert peak(10_000) < 2 * peak(1_000)
