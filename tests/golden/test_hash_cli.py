"""What `nodeupgrade hash` and `explain` print. To accept new output: UPDATE_GOLDEN=1 pytest tests/golden."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeupgrade.api.json import Json
from nodeupgrade.cli.main import main
from nodeupgrade.kubelethash import NEWEST_MINOR
from tests.golden.cli.cluster import FILES, Cluster, check

HERE = Path(__file__).parent / "cli"
HASH = ["hash", "--kubelet-version", "1.14,1.30,v1.33.13"]


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("hash.txt", HASH),
        ("hash.jsonl", [*HASH, "--output", "json"]),
        ("explain-1.30-1.33.txt", ["explain", "--from", "1.30", "--to", "1.33"]),
        ("explain-1.30-1.33.jsonl", ["explain", "--from", "1.30", "--to", "1.33", "-o", "json"]),
        ("explain-1.30-1.33.yaml", ["explain", "--from", "1.30", "--to", "1.33", "-o", "yaml"]),
        ("explain-1.13-1.15.txt", ["explain", "--from", "1.13", "--to", "1.15"]),
    ],
)
def test_output(golden: str, arguments: list[str]) -> None:
    given = (HERE / "pods.yaml").read_bytes()
    result = CliRunner().invoke(main, [*arguments, "--pods", "-"], input=given, env={"COLUMNS": "200"})
    printed = "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())
    printed += f"exit code {result.exit_code}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        (HERE / golden).write_text(printed, encoding="utf-8")
    assert printed == (HERE / golden).read_text(encoding="utf-8")


def test_an_unknown_kubelet_is_refused_by_name() -> None:
    unknown = f"1.{NEWEST_MINOR + 1}"
    result = CliRunner().invoke(main, ["explain", "--from", "1.30", "--to", unknown, "--pods", "-"], input="")
    assert result.exit_code == 2
    refused = f"cannot hash for kubelet v{unknown}.0 because the newest kubelet known here is 1.{NEWEST_MINOR}"
    assert refused in result.output


def test_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    crictl_ps = json.dumps(
        {"containers": [each["status"] for each in inspected("inspected.json")]},
    )
    lines = [
        "verify --containers inspected.json --pods node-pods.yaml",
        "verify --containers inspected.json --pods node-pods.yaml -o json",
        "verify --containers inspected-mixed.json --pods node-pods.yaml",
        "verify --containers inspected-two.json --pods node-pods.yaml",
        "verify --containers inspected-two.json --pods node-pods.yaml --also-accepted 1.31",
        "verify --containers node-pods.yaml --pods node-pods.yaml",
        "verify --containers - --pods -",
    ]
    cluster = Cluster()
    transcripts = [cluster.run(f"nodeupgrade {line}") for line in lines]
    transcripts.append(cluster.run("nodeupgrade verify --containers - --pods node-pods.yaml -o yaml", stdin=crictl_ps))
    check("verify.txt", transcripts)


def inspected(file: str) -> list[Json]:
    decoder, text, found = json.JSONDecoder(), (FILES / file).read_text(encoding="utf-8"), list[Json]()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found
