"""Every right in the manifests has its row in docs/generated/rbac.md, and every policy in docs/security.md."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.architecture.test_the_house import tracked
from tests.builders.checkout import CHECKOUT
from tools import generate_rbac
from tools.documents import documents

PAGE = (CHECKOUT / "docs" / "generated" / "rbac.md").read_text(encoding="utf-8")
SECURITY = (CHECKOUT / "docs" / "security.md").read_text(encoding="utf-8")
MANIFESTS = ("manifests/*.yaml", "components/*.yaml", "overlays/*.yaml")
CHART = "charts/nodeupgrade/templates/*.yaml"
ROLES = frozenset({"Role", "ClusterRole"})
POLICY = "ValidatingAdmissionPolicy"
EVERYWHERE = "everywhere"


@dataclass(frozen=True)
class Right:
    """One rule of a role, as a row says it."""

    role: str
    where: str
    verbs: frozenset[str]
    resources: frozenset[str]


def objects() -> Iterator[dict[str, Any]]:
    for path in tracked(*MANIFESTS):
        yield from documents(path.read_text(encoding="utf-8"))


OBJECTS = [each for each in objects() if "kind" in each]


def of(*kinds: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] in kinds]


def name(body: dict[str, Any]) -> str:
    return str(body["metadata"]["name"])


def granted() -> Iterator[Right]:
    for role in of(*ROLES):
        where = role["metadata"].get("namespace", EVERYWHERE)
        for rule in role.get("rules") or ():
            assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
            named = [f"{each} {only}" for each in rule["resources"] for only in rule.get("resourceNames", ())]
            (group,) = rule["apiGroups"]
            resources = frozenset(f"{each} ({group})" if group else each for each in named or rule["resources"])
            yield Right(name(role), where, frozenset(rule["verbs"]), resources)


def rows(page: str, columns: int, heading: str) -> list[list[str]]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line]
    started = next(at for at, cells in enumerate(lines) if cells[0] == heading)
    table = lines[started + 2 :]
    end = next((at for at, cells in enumerate(table) if set("".join(cells)) <= {"-"}), len(table) + 1)
    return [cells for cells in table[: end - 1] if len(cells) == columns]


def code(cell: str) -> frozenset[str]:
    return frozenset(re.findall(r"`([^`]+)`", cell))


RIGHTS = rows(PAGE, 6, "account")
POLICIES = rows(SECURITY.partition("## Admission policies")[2].partition("\n## ")[0], 5, "policy")


def told() -> Iterator[Right]:
    for _, role, where, verbs, resources, _ in RIGHTS:
        (named,) = code(role)
        yield Right(named, where.strip("`"), code(verbs), code(resources))


def test_every_right_has_its_row_and_every_row_its_right() -> None:
    assert set(told()) - set(granted()) == set(), "rows of what nobody may"
    assert set(granted()) - set(told()) == set(), "rights without a row"
    assert len(list(told())) == len(list(granted()))


def test_every_row_says_whose_it_is() -> None:
    """As the bindings say; a role of no binding of ours is bound, or aggregated, by administrators."""
    bound: dict[str, set[str]] = {}
    for binding in of("RoleBinding", "ClusterRoleBinding"):
        bound.setdefault(binding["roleRef"]["name"], set()).update(each["name"] for each in binding["subjects"])
    for account, role, *_ in RIGHTS:
        (named,) = code(role)
        assert code(account) == bound.get(named, set()), role


def test_a_rule_without_a_reason_is_named() -> None:
    rule = "  - apiGroups: [apps]\n    resources: [deployments]\n    verbs: [get]\n"
    role = "kind: ClusterRole\nmetadata: {name: r}\nrules:\n"
    (found,) = generate_rbac.rules(f"{role}  # To look,\n  # and no more.\n{rule}")
    assert (found.reason, list(found.resources)) == ("To look, and no more.", ["deployments (apps)"])
    with pytest.raises(generate_rbac.NoReasonError, match=r"^role r: say above the rule for deployments what it is "):
        list(generate_rbac.rules(f"{role}  # To look.\n{rule}{rule}"))


def test_every_row_says_what_stops_the_rest() -> None:
    assert [row for row in RIGHTS if len(row[-1]) < 10] == []


def test_every_account_and_role_is_named() -> None:
    """Also those that have no rights of their own."""
    wanted = {name(each) for each in of("ServiceAccount", *ROLES)}
    assert wanted - set(re.findall(r"`([a-z-]+)`", PAGE)) == set()


def test_every_policy_has_its_row_says_how_it_fails_and_is_bound() -> None:
    policies = {name(each): each["spec"]["failurePolicy"] for each in of(POLICY)}
    assert {next(iter(code(row[0]))): next(iter(code(row[3]))) for row in POLICIES} == policies
    bindings = {each["spec"]["policyName"]: each["spec"]["validationActions"] for each in of(f"{POLICY}Binding")}
    assert bindings == {policy: ["Deny"] for policy in policies}


def test_nothing_is_granted_that_gives_everything() -> None:
    for right in granted():
        assert "*" not in right.verbs
        assert not {"bind", "escalate"} & right.verbs
        assert not [each for each in right.resources if "*" in each or each.startswith("secrets")]


def test_the_chart_grants_the_same() -> None:
    """It is generated from the manifests, so the lists of verbs are the same ones."""

    def lists(*patterns: str) -> list[str]:
        texts = [path.read_text(encoding="utf-8") for path in tracked(*patterns)]
        return sorted(each for text in texts for each in re.findall(r"^\s+verbs: (\[.*?\])", text, re.MULTILINE))

    assert lists(CHART) == lists(*MANIFESTS)
    policies = [text for path in tracked(CHART) if f"kind: {POLICY}\n" in (text := path.read_text(encoding="utf-8"))]
    assert sum(text.count(f"kind: {POLICY}\n") for text in policies) == len(POLICIES)
