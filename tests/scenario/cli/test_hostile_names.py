"""What others have written reaches no terminal as it is: all commands, on a cluster in which every text is hostile."""

import asyncio
import json
import re
from dataclasses import replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES, ForbiddenError, NoClusterError, UnavailableError
from tests.golden.cli.cluster import FILES, HERE, WORLD, Cluster, objects
from tests.golden.test_hash_cli import inspected

EVIL = (
    "\x1b]0;pwned\x07\x1b[31m\r\b\x7f\x9b2J\u202e\u2066\u200b\u2028\u2029\x85\ufeff\U000e0041"
    "[red]x[/red][link=https://evil.example]y[/link]\n$ forged"
)
"""Appended to every text: sequences for terminals, controls of reading order, what is not seen, and rich's markup."""

SHOWN = "\\x1b]0;pwned\\x07"
"""How the beginning of it is shown."""

ROLLOUT, NODE = f"kubelet-1-33-13{EVIL}", f"web-a-1{EVIL}"

MILD = EVIL.replace("\b", "")
"""Without what hashing refuses."""

_KEPT_KEYS = frozenset(
    {"apiVersion", "kind", "phase", "outcome", "result", "state", "type", "status", "action", "operator", "effect"}
    | {"mode", "kubeletVersion", "check", "step", "containerRuntimeVersion", "fromVersion", "toVersion", "version"}
    | {"sha256", "uid", "nodeUID", "runID", "ask", "reason", "actionReason", "wave", "currentWave", "image"}
)
"""What is read, and not only shown: with another value the API server, or the reader, would refuse the object."""
_KEPT_PLACES = frozenset({"nodeInfo", "labels"})
_KEPT = re.compile(r"\d{4}-\d\d-\d\dT.*|v1\.\d+.*|\d+(\.\d+)?(s|m|h|%|Mi|Gi|Ki)?")


def hostile(value: Any, evil: str, key: str = "") -> Any:
    """The same with every text hostile, the same text always in the same way, so that references still lead there."""
    match value:
        case {"kind": "NodeUpgrade", "spec": spec, **others}:
            return {**hostile(others, evil), "kind": "NodeUpgrade", "spec": spec}
        case dict():
            return {
                f"{name}{evil}" if key == "annotations" and "nodeupgrade" not in name else name: each
                if name in _KEPT_PLACES or (name == "name" and key in {"waves", "steps"})
                else hostile(each, evil, name)
                for name, each in value.items()
            }
        case list():
            return [hostile(each, evil, key) for each in value]
        case str() if value and key not in _KEPT_KEYS and not _KEPT.fullmatch(value):
            return f"{value}{evil}"
        case _:
            return value


def everywhere(value: Any) -> Any:
    """The same with every text hostile but those that say what kind of object it is."""
    match value:
        case dict():
            return {key: each if key in {"kind", "apiVersion"} else everywhere(each) for key, each in value.items()}
        case list():
            return [everywhere(each) for each in value]
        case str():
            return f"{value}{EVIL}"
        case _:
            return value


def world() -> Cluster:
    return hostile_cluster().copy()


@cache
def hostile_cluster() -> Cluster:
    cluster = Cluster()
    for body in chain.from_iterable(map(objects, WORLD)):
        cluster.add(hostile(body, EVIL))
    return cluster


def unreadable_world() -> Cluster:
    return unreadable_cluster().copy()


@cache
def unreadable_cluster() -> Cluster:
    """A cluster whose API server checks nothing."""
    cluster = Cluster()
    for body in chain.from_iterable(map(objects, WORLD)):
        evil = everywhere(body)
        evil["metadata"]["name"] = f"{body['metadata']['name']}{EVIL}"
        cluster.add(evil)
    return cluster


@pytest.fixture
def files(hostile_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the golden tests with hostile contents, under hostile names."""
    monkeypatch.chdir(hostile_files)


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile")
    for name in ("databases.yaml", "look-first.yaml", "node-pods.yaml"):
        given = list(yaml.safe_load_all((FILES / name).read_text(encoding="utf-8")))
        (directory / evil_file(name)).write_text(
            yaml.safe_dump_all(hostile(body, EVIL) for body in given), encoding="utf-8"
        )
        (directory / evil_file(f"all-{name}")).write_text(yaml.safe_dump_all(map(everywhere, given)), encoding="utf-8")
    for name in ("databases.yaml", "look-first.yaml"):
        (directory / evil_file(name)).write_text(
            (FILES / name).read_text(encoding="utf-8") + "# \u202e\n", encoding="utf-8"
        )
    containers = [hostile(each, EVIL) for each in inspected("inspected.json")]
    for each in containers:
        labels = each["status"]["labels"]
        each["status"]["labels"] = {key: value if "uid" in key else f"{value}{EVIL}" for key, value in labels.items()}
    (directory / evil_file("inspected.json")).write_text("\n".join(map(json.dumps, containers)), encoding="utf-8")
    for name, evil in (("pods.yaml", MILD), ("refused.yaml", EVIL)):
        pods = [hostile(body, evil) for body in yaml.safe_load_all((HERE / "pods.yaml").read_text(encoding="utf-8"))]
        (directory / evil_file(name)).write_text(yaml.safe_dump_all(pods), encoding="utf-8")
    (directory / evil_file("broken.yaml")).write_bytes(b'a: "\xff\x1b[31m"\n\x1b]0;pwned\x07\xff: [\n')
    metadata, spec = b'{"name": "pwned\xff\xc2\x9b\\u001b"}', b'{"containers": [{"name": "c\xff", "image": 1}]}'
    pod = b'{"kind": "Pod", "metadata": ' + metadata + b', "spec": ' + spec + b"}"
    (directory / evil_file("bytes.json")).write_bytes(pod)
    return directory


def evil_file(name: str) -> Path:
    return Path(f"{EVIL.replace('/', '')}{name}")


def file(name: str) -> str:
    return str(evil_file(name))


LINES: dict[str, list[list[str]]] = {
    "plan": [[file("databases.yaml"), "--nodes"], [file("look-first.yaml")], [file("all-databases.yaml")],
             [file("broken.yaml")]],
    "status": [[], [ROLLOUT], [ROLLOUT, "-v"], [ROLLOUT, "--watch", "--timeout", "1s"], ["--watch", "--timeout", "1s"],
               ["--context", EVIL, "--context", f"b{EVIL}"], [ROLLOUT, "--context", "*"], ["--context", f"no{EVIL}*"]],
    "failures": [[ROLLOUT], [f"kubelet-1-34-plan{EVIL}"]],
    "explain-node": [[NODE], [f"web-b-1{EVIL}"], [f"db-6{EVIL}", "--upgrade", f"kubelet-1-34-plan{EVIL}"], [EVIL]],
    "evidence": [[NODE], [f"web-c-1{EVIL}"], [f"cache-1{EVIL}"], [EVIL]],
    "report": [[ROLLOUT], [ROLLOUT, "-o", "markdown"], [f"kubelet-1-30-14{EVIL}"], [f"kubelet-1-34-plan{EVIL}"]],
    "hashes": [["--fleet"], [NODE, f"web-c-1{EVIL}"], [EVIL]],
    "check": [[], ["--node", NODE], ["--node", EVIL]],
    "new": [["v1.33.13", "--image", f"registry.example/kubelet{EVIL}", "--node", NODE],
            ["v1.33.13", "--url", EVIL, "--sha256", f"linux-amd64={EVIL}", "--selector", EVIL],
            [EVIL, "--image", f"registry.example/kubelet@sha256:{'0' * 64}", "--selector", EVIL, "--name", EVIL]],
    "approve": [[ROLLOUT, EVIL], [ROLLOUT, f"rack-b{EVIL}", "--dry-run"], [ROLLOUT, f"rack-b{EVIL}"]],
    "pause": [[ROLLOUT, "--dry-run"], [ROLLOUT], [EVIL], [ROLLOUT, "--context", "*"]],
    "resume": [[f"kubelet-1-33-13-gpu{EVIL}"], [ROLLOUT], [EVIL, "--context", "*"]],
    "retry": [[ROLLOUT, "--wait", "--timeout", "2s"], [f"kubelet-1-30-14{EVIL}"]],
    "abort": [[ROLLOUT, "--yes"], [ROLLOUT]],
    "lint": [[file("all-databases.yaml"), file("all-look-first.yaml")],
             [file("databases.yaml"), file("node-pods.yaml"), "--against", "live"],
             [file("broken.yaml")], [EVIL]],
    "hash": [["--kubelet-version", "1.30", "--pods", file("pods.yaml")], ["--kubelet-version", EVIL, "--pods", "-"],
             ["--kubelet-version", "1.30", "--pods", file("refused.yaml")],
             ["--kubelet-version", "1.30", "--pods", file("bytes.json")],
             ["--kubelet-version", "1.30", "--pods", file("broken.yaml")]],
    "explain": [["--from", "1.13", "--to", "1.33", "--pods", file("pods.yaml")],
                *([*of, "-o", output] for output in ("table", "csv", "markdown") for of in
                  (["--to", "1.34"], ["--from", "1.13", "--to", "1.33", "--pods", file("pods.yaml")])),
                ["--to", EVIL], ["--to", "1.34"],
                ["--from", "1.30", "--to", "1.33", "--pods", file("bytes.json")]],
    "verify": [["--containers", file("inspected.json"), "--pods", file("node-pods.yaml")],
               ["--containers", file("broken.yaml"), "--pods", file("bytes.json")],
               ["--containers", file("inspected.json"), "--pods", file("bytes.json")]],
    "completion": [["bash"], ["zsh"], ["fish"], ["kubectl"], [EVIL]],
}  # fmt: skip
"""Command lines for every command: one that is missing here fails the test."""

QUIET = frozenset({"completion"})
"""Commands that print nothing that others have written."""

_DRAWN = re.compile(r"(\r(?=\x1b))?\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of rich itself, on a terminal."""


def run(cluster: Cluster, arguments: list[str], **environment: str) -> str:
    with_width = {"COLUMNS": "120", "KUBECONFIG": "", **environment}
    result = CliRunner().invoke(
        main, arguments, obj=replace(cluster.world(), contexts=hostile_contexts), env=with_width
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def hostile_contexts(_config: Path | None) -> tuple[str, ...]:
    return EVIL, f"b{EVIL}"


def unsafe(printed: str) -> set[str]:
    return {letter for letter in printed if not (letter.isprintable() or letter == "\n")}


ALL = list(main.commands)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_no_control_character_reaches_a_terminal(command: str, output: str) -> None:
    assert command in LINES, f"give a command line for {command} in this test"
    called = main.get_command(click.Context(main), command)
    assert called is not None
    formats = [each.type for each in called.params if "--output" in each.opts]
    with_output = any(isinstance(each, click.Choice) and output in each.choices for each in formats)
    shown = ""
    for line, cluster in product(LINES[command], (world, unreadable_world) if output == "text" else (world,)):
        printed = run(cluster(), [command, *line, *(["-o", output] if with_output and output != "text" else [])])
        assert unsafe(printed) == set(), line
        assert not re.search(r"^\$ forged", printed, re.MULTILINE), line
        shown += printed
    if command not in QUIET:
        assert "pwned" in shown


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize("columns", ["40", "120"])
def test_nor_on_a_screen_with_colours(command: str, columns: str) -> None:
    for line in LINES[command]:
        printed = run(world(), [command, *line], FORCE_COLOR="1", COLUMNS=columns, TERM="xterm-256color")
        assert unsafe(_DRAWN.sub("", printed)) == set(), line
        assert "\x1b]8;" not in printed


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize("failure", [NoClusterError, UnavailableError, ForbiddenError])
def test_nor_what_an_api_server_answers(command: str, failure: type[Exception]) -> None:
    cluster = world()
    cluster.failure = failure(f"cannot GET /x because the API server answers 503: {EVIL}")
    for line in LINES[command]:
        assert unsafe(run(cluster, [command, *line])) == set(), line


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", ALL)
def test_nor_wrong_usage(command: str) -> None:
    for line in ([f"--{EVIL}"], [EVIL, EVIL, EVIL, EVIL], ["--output", EVIL], ["--timeout", EVIL], [EVIL]):
        assert unsafe(run(world(), [command, *line])) == set(), line
    assert unsafe(run(world(), [EVIL])) == set()


@pytest.mark.parametrize("command", ["status", "explain-node", "evidence"])
def test_nor_completions(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"_NODEUPGRADE_COMPLETE": "bash_complete", "COMP_WORDS": f"nodeupgrade {command} ", "COMP_CWORD": "2"}
    result = CliRunner().invoke(
        main, [], obj=world().world(), env=asked, prog_name="nodeupgrade", complete_var="_NODEUPGRADE_COMPLETE"
    )
    assert unsafe(result.output) == set()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize(
    "line", [["evidence", NODE], ["explain-node", NODE], ["failures", ROLLOUT], ["plan", file("databases.yaml")]]
)
def test_what_is_for_programs_is_exact(line: list[str], output: str) -> None:
    """Escaped as JSON and YAML escape, so that a program reads what stands in the object."""
    printed = run(world(), [*line, "-o", output])
    read = json.loads(printed) if output == "json" else yaml.safe_load(printed)
    assert any(EVIL in text for text in texts(read))


def texts(document: Any) -> list[str]:
    match document:
        case dict():
            return [text for pair in document.items() for each in pair for text in texts(each)]
        case list():
            return [text for each in document for text in texts(each)]
        case str():
            return [document]
        case _:
            return []


def test_everything_in_the_hostile_world_can_be_read() -> None:
    """Else the tests above would only show how commands fail."""
    cluster = world()
    for body in asyncio.run(cluster.kube.list(UPGRADES)):
        assert parse_upgrade(body).problem == ""
    for body in asyncio.run(cluster.kube.list(TASKS)):
        assert parse_task(body).status.phase.value == body.get("status", {}).get("phase", "Pending")
