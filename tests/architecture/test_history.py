"""What changed between kubelets is said once: nothing but the two tables compares a version with a number."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, modules
from tests.builders.checkout import CHECKOUT
from tools import generate_history

TABLES = {
    SOURCE_ROOT / "nodeupgrade" / path
    for path in (
        "kubelet/history.py",
        "kubelet/known_defects.py",
        "kubelethash/changes.py",
        "kubelethash/go/schema.py",
    )
}
PARTS = {"minor", "patch", "series"}
BOUNDS = {"NEWEST_MINOR", "OLDEST_MINOR"}
FACTS = {"MinorChange", "ServerChange", "ReleaseDefect", "KnownDefect"}
VERSIONS = {"KubeletVersion", "parse", "of"}


def name_of(node: ast.AST) -> str:
    """The last word of a name, `minor` for `kubelet.minor`; empty for what has none."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def is_part(node: ast.AST) -> bool:
    return name_of(node) in PARTS


def has_part(node: ast.AST) -> bool:
    return any(map(is_part, ast.walk(node)))


def is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is not None


def has_constant(node: ast.AST) -> bool:
    """Whether a constant of a module is in an expression."""
    names = (name_of(each) for each in ast.walk(node))
    return any(name.isupper() and name not in BOUNDS for name in names)


def is_fixed(node: ast.AST) -> bool:
    """Whether an expression is of numbers, texts or constants, and not of a version itself."""
    literal = any(map(is_literal, ast.walk(node)))
    return has_constant(node) or (literal and not has_part(node))


def is_breach(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            return any(map(has_part, sides)) and any(map(is_fixed, sides))
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [*args, *(keyword.value for keyword in keywords)]
            literal = any(map(is_literal, given))
            looked_up = name_of(func) == "get" and any(map(is_part, given[:1]))
            return name_of(func) in FACTS or (name_of(func) in VERSIONS and literal) or looked_up
        case ast.Subscript(slice=index):
            return is_part(index)
        case ast.Match(subject=subject):
            return any(map(is_part, subject.elts if isinstance(subject, ast.Tuple) else [subject]))
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            return "MINOR" in name_of(target).upper() and is_fixed(value)
        case _:
            return False


def breaches(tree: ast.AST) -> Iterator[ast.AST]:
    return filter(is_breach, ast.walk(tree))


def test_no_version_is_compared_with_a_number() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{breach.lineno}"
        for path in modules()
        if path.is_relative_to(SOURCE_ROOT) and path not in TABLES
        for breach in breaches(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(breach, ast.expr | ast.stmt)
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "kubelet.minor >= 35",
        "35 <= facts.target.minor",
        "minor < 21",
        "kubelet.minor >= KEPT_FROM",
        "kubelet.minor in range(27, 31)",
        "kubelet.minor in GATED",
        "first < SINCE <= kubelet.minor",
        "(kubelet.major, kubelet.minor) >= (1, 30)",
        "(kubelet.major, kubelet.minor) >= (FROM.major, FROM.minor)",
        "version == KubeletVersion(1, 30)",
        "KubeletVersion(1, minor=30)",
        "KubeletVersion.parse('v1.30.0')",
        "kubelet.series == '1.30'",
        "FOUND.get(version.minor, 0)",
        "FOUND[version.minor]",
        "match kubelet.minor:\n    case 30:\n        pass",
        "STEADY_MINOR = 31",
        "_KEPT_MINORS: range = range(27, 31)",
        "MinorChange(what='', link='', first=31)",
        "max(v.minor for v in starting) < FIRST",
    ],
)
def test_a_comparison_is_found(source: str) -> None:
    assert list(breaches(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "kubelet.minor != target.minor",
        "(kubelet.major, kubelet.minor) > (server.major, server.minor)",
        "version.minor > NEWEST_MINOR",
        "history.PROBES_KEPT.applies_to(kubelet)",
        "changes.SIDECARS.covers(minor)",
        "KubeletVersion.parse(text)",
        "runs[-1].minor + 1",
    ],
)
def test_other_uses_of_a_version_are_not(source: str) -> None:
    assert list(breaches(ast.parse(source))) == []


def test_somebody_relies_on_every_change() -> None:
    assert [row.name for row in generate_history.rows() if not row.used_by] == []


def test_every_change_names_its_source_upstream() -> None:
    for row in generate_history.rows():
        project, kind, number = row.fact.link.removeprefix("https://github.com/kubernetes/").split("/")
        assert project in {"kubernetes", "enhancements"}, row
        assert kind in {"pull", "issues"}, row
        assert number.isdecimal(), row


def test_the_tables_are_where_they_are_looked_for() -> None:
    assert [path for path in TABLES if not Path(path).is_file()] == []
