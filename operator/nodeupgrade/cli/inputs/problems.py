"""Find what is wrong with the NodeUpgrades of a file, and where."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import parse_spec
from nodeupgrade.check_catalogue import invalid_accepted_checks
from nodeupgrade.cli.inputs.documents import Document
from nodeupgrade.cli.inputs.lint import is_valid, lint
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from nodeupgrade.findings.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """A finding and its place in the file, as the command prints it."""

    file: str
    line: int
    object: str
    path: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        what = "warning: " if self.warning else ""
        return f"{self.file}:{self.line}: {what}{self.path}: {self.message}"


def is_upgrade(document: Document) -> bool:
    """Report whether it is a NodeUpgrade, or was meant to be one."""
    version = document.body.get("apiVersion") if isinstance(document.body, dict) else ""
    ours = str(version).startswith(f"{UPGRADES.group}/") and document.kind != TASKS.kind
    return ours or document.kind.casefold() == UPGRADES.kind.casefold()


def results(document: Document, previous: Json | None, now: datetime) -> list[LintResult]:
    """Find everything that is wrong with a document, or with replacing another one by it, from top to bottom."""
    return sorted(_found(document, previous, now), key=lambda result: (result.line, result.path))


def _found(document: Document, previous: Json | None, now: datetime) -> Iterator[LintResult]:
    at = partial(LintResult, file=document.file, object=document.name)
    for path, line in document.repeated:
        yield at(line=line, path=path, message="it is given twice, and only the last counts; remove one")
    for finding in (*lint(document.body, previous, now=now), *_names(document.body)):
        path, line = finding.subject or "the object", document.line(finding.subject)
        yield at(line=line, path=path, message=finding.detail, warning=not finding.forbids)


def _names(body: Any) -> Iterator[Finding]:  # Any: unvalidated JSON
    """Yield names of checks that are not possible; a spec with other errors is not looked at."""
    spec = body.get("spec") if isinstance(body, dict) else None
    return invalid_accepted_checks(parse_spec(spec)) if is_valid(spec) else iter(())
