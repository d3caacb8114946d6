"""Tests how the hash and explain commands treat invalid input."""

import json

import pytest
from click.testing import CliRunner

from nodeupgrade.cli.main import main

POD = {"name": "first", "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "cannot explain anything because there is no pod in the input"),
        ('{"kind": "List", "items": []}', "cannot explain anything because there is no pod in the input"),
        ("[1]", "cannot explain anything but pods, and number 1 of the input is not an object"),
        (
            json.dumps({**POD, "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}),
            "cannot explain anything because there is no pod in the input, only: 1 Service; give pods as from:",
        ),
    ],
)
def test_there_is_no_false_comfort(given: str, said: str) -> None:
    result = CliRunner().invoke(main, ["explain", "--from", "1.31", "--to", "1.33", "--pods", "-"], input=given)
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert "No container would restart" not in result.output
    control = CliRunner().invoke(
        main, ["explain", "--from", "1.31", "--to", "1.33", "--pods", "-"], input=json.dumps(POD)
    )
    assert (control.exit_code, control.output) == (0, "No container would restart: 1 running container examined.\n")


def test_one_bad_pod_does_not_stop_the_others() -> None:
    lines = [
        {"name": "first", "spec": {"containers": [{"name": "c", "image": "i"}]}},
        {"name": "second", "spec": {"containers": [{"name": "c", "image": 5}]}},
        {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    ]
    arguments = ["hash", "--kubelet-version", "1.33", "--pods", "-", "--output", "json"]
    result = CliRunner().invoke(main, arguments, input="\n".join(map(json.dumps, lines)))
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [entry["name"] for entry in printed] == ["first", "second", "#3"]
    assert printed[0]["hashes"] == printed[2]["hashes"]
    assert printed[0]["hashes"]["1.33"].keys() == {"c"}
    assert printed[1]["error"] == "cannot hash container 'c' because at image a string is expected, not a number"
    assert result.exit_code == 1
