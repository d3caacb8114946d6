"""A cluster in memory, filled with objects from files, and the command line on it."""

import asyncio
import copy
import functools
import os
import shlex
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from click.testing import CliRunner

from nodeupgrade.api.json import Json
from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    Resource,
    ReviewingKube,
)
from tests.doubles.kube import InMemoryKube

HERE = Path(__file__).parent
FILES = HERE / "files"
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
WIDTH = "120"

WORLD = ("upgrades.yaml", "tasks.yaml", "previews.yaml", "nodes.yaml", "pods.yaml", "events.yaml", "guard.yaml")
"""Everything in ``objects``: one cluster at one moment, which test_worlds.py shows to be a possible one."""

KINDS: dict[str, Resource] = {
    each.kind: each
    for each in (
        CONFIGMAPS,
        NODES,
        PODS,
        EVENTS,
        UPGRADES,
        TASKS,
        LEASES,
        DEPLOYMENTS,
        ADMISSION_POLICIES,
        ADMISSION_POLICY_BINDINGS,
    )
}


@functools.cache
def objects(file: str) -> tuple[Json, ...]:
    text = (HERE / "objects" / file).read_text(encoding="utf-8")
    documents = yaml.load_all(text, Loader=yaml.CSafeLoader)
    return tuple(body for document in documents for body in document.get("items", [document]))


class Cluster:
    """What the commands talk to; its clock goes on only when a command sleeps."""

    def __init__(self, *files: str) -> None:
        self.now = NOW
        self.kube = InMemoryKube(version="v1.34.2", clock=lambda: self.now)
        self.failure: Exception | None = None
        self.at_sleep: list[Json] = []
        for body in (body for file in files for body in objects(file)):
            self.add(copy.deepcopy(body))

    def copy(self) -> "Cluster":
        """The same objects; what is written to one is not seen in the other."""
        other = Cluster()
        other.kube._objects, other.kube._revision = dict(self.kube._objects), self.kube._revision
        return other

    def add(self, body: Json) -> None:
        """Store an object as it is, identity and status included."""
        metadata, resource = body["metadata"], KINDS[body["kind"]]
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        self.kube._store((resource.plural, metadata.get("namespace"), metadata["name"]), body, "load")

    def get(self, resource: Resource, name: str) -> Json:
        return asyncio.run(self.kube.get(resource, name))

    def world(self) -> World:
        @asynccontextmanager
        async def connect(
            _config: Path | None, _context: str | None, _seconds: float, _user: str | None
        ) -> AsyncIterator[ReviewingKube]:
            if self.failure is not None:
                raise self.failure
            yield self.kube

        async def sleep(seconds: float) -> None:
            self.now += timedelta(seconds=seconds)
            if self.at_sleep:
                self.add(self.at_sleep.pop(0))

        return World(connect=connect, now=lambda: self.now, sleep=sleep)

    def run(self, command: str, *, stdin: str | None = None, width: str = WIDTH) -> str:
        """Run a command line; what it prints, its exit code last."""
        return run(command, self.world(), stdin=stdin, width=width)


def of_contexts(clusters: Mapping[str, Cluster]) -> World:
    """A kubeconfig with these clusters."""
    worlds = {context: cluster.world() for context, cluster in clusters.items()}

    def connect(
        config: Path | None, context: str | None, seconds: float, user: str | None
    ) -> AbstractAsyncContextManager[ReviewingKube]:
        return worlds[str(context)].connect(config, context, seconds, user)

    async def sleep(seconds: float) -> None:
        for each in worlds.values():
            await each.sleep(seconds)

    now = next(iter(worlds.values())).now
    return World(connect=connect, contexts=lambda _config: tuple(worlds), now=now, sleep=sleep)


def run(command: str, world: World, *, stdin: str | None = None, width: str = WIDTH) -> str:
    """Run a command line in a world; what it prints, its exit code last."""
    runner, environment = CliRunner(), {"COLUMNS": width, "KUBECONFIG": ""}
    program, *arguments = shlex.split(command)
    assert program == "nodeupgrade"
    result = runner.invoke(main, arguments, obj=world, input=stdin, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    printed = "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())
    code = f"exit code {result.exit_code}\n" if result.exit_code else ""
    return f"$ {command}\n{printed}{code}\n"


def check(golden: str, transcripts: Iterable[str]) -> None:
    """Compare with a golden file. To accept new output: UPDATE_GOLDEN=1 pytest tests/golden."""
    printed, file = "".join(transcripts), HERE / golden
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(printed, encoding="utf-8")
    assert printed == file.read_text(encoding="utf-8")
