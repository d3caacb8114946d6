"""Generate the table of docs/generated/rbac.md from the roles of the manifests and the reasons beside their rules.

The reason of a rule is the comment right above it. Run ``python -m tools.generate_rbac`` after changing either;
``--check`` only reports whether the page is up to date.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from nodeupgrade.api.json import Json
from tools.documents import documents
from tools.generated import CHECKOUT, Wanted, filled, main

PAGE = CHECKOUT / "docs" / "generated" / "rbac.md"
FOLDERS = ("manifests", "components", "overlays")
EVERYWHERE = "everywhere"
_KINDS = frozenset({"Role", "ClusterRole"})
_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})
_RULE = re.compile(r"((?:^  # .*\n)*)^  - ", re.MULTILINE)


class NoReasonError(Exception):
    """A rule has no reason beside it; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a role, with why it is there."""

    role: str
    namespace: str
    body: Json
    reason: str

    @property
    def resources(self) -> Iterator[str]:
        """The names of the resources, with the API group and the only object that they are limited to."""
        (group,) = self.body["apiGroups"]
        for resource in self.body["resources"]:
            for only in self.body.get("resourceNames") or ("",):
                yield " ".join(filter(None, (resource, only, group and f"({group})")))


def rules(text: str) -> Iterator[Rule]:
    """Yield the rules of all roles of a file.

    Raises:
        NoReasonError: a rule has no comment right above it.
    """
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        role = yaml.safe_load(document)
        if not role or role.get("kind") not in _KINDS or not role.get("rules"):
            continue
        name, namespace = role["metadata"]["name"], role["metadata"].get("namespace", EVERYWHERE)
        comments = _RULE.findall(document.partition("\nrules:\n")[2])
        for body, comment in zip(role["rules"], comments, strict=True):
            reason = " ".join(line.strip().removeprefix("# ") for line in comment.splitlines())
            if not reason:
                raise NoReasonError(
                    f"role {name}: say above the rule for {', '.join(body['resources'])} what it is for"
                )
            yield Rule(role=name, namespace=namespace, body=body, reason=reason)


def wanted() -> Wanted:
    """Return the page as it should be."""
    files = [path for folder in FOLDERS for path in sorted((CHECKOUT / folder).rglob("*.yaml"))]
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"), "rights", "\n".join((*_table(files), "")))}


def _table(files: list[Path]) -> Iterator[str]:
    texts = [path.read_text(encoding="utf-8") for path in files]
    accounts = _accounts(texts)
    yield from ("| account | role | where | verbs | resources | what for, and what stops the rest |", f"|{'---|' * 6}")
    for text in texts:
        for rule in rules(text):
            account, verbs = accounts.get(rule.role, "–"), _code(rule.body["verbs"])
            where = rule.namespace if rule.namespace == EVERYWHERE else f"`{rule.namespace}`"
            cells = (account, f"`{rule.role}`", where, verbs, _code(rule.resources), rule.reason)
            yield f"| {' | '.join(cells)} |"


def _accounts(texts: list[str]) -> dict[str, str]:
    """Return the accounts that each role is bound to."""
    bodies = (body for text in texts for body in documents(text) if body.get("kind") in _BINDINGS)
    return {body["roleRef"]["name"]: _code(subject["name"] for subject in body["subjects"]) for body in bodies}


def _code(words: Iterator[str] | list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    main("tools.generate_rbac", __doc__, wanted)
