"""Text of others is taken apart by nodeupgrade.text: Python's own methods follow Unicode, which others may write."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.checkout import CHECKOUT

PACKAGE = CHECKOUT / "operator" / "nodeupgrade"
EXEMPT = ("text.py", "cli", "kubelethash")
"""What offers the right methods; what people type and see; what may be published alone, and knows no text of nodes."""
READS_THE_NODE = ("node", "kubelet", "cluster")
WITHOUT_ARGUMENTS = {
    **dict.fromkeys(("split", "rsplit"), "words() of nodeupgrade.text"),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), "trimmed() of nodeupgrade.text"),
}
ALWAYS = {
    "splitlines": "lines() of nodeupgrade.text",
    "read_text": "read_bytes(): this one makes line feeds of carriage returns",
    **dict.fromkeys(("isdigit", "isdecimal", "isnumeric", "isspace", "isalpha", "isalnum"), "number(), or a pattern"),
}
OF_THE_NODE = {
    "json.loads": "parse_json() of nodeupgrade.text: this one raises RecursionError, too",
    "tomllib.loads": "parse_toml() of nodeupgrade.text: this one raises RecursionError, too",
    "int": "number() or integer() of nodeupgrade.text, or math.trunc(): this one reads ٣ and 1_0",
    "float": "a pattern: this one reads ٣, 1_0 and nan",
}
OF_PYTHON = "fromisoformat"
"""It reads 20260102, and times without a zone."""
UNICODE_CLASSES = re.compile(r"(?<!\\)(?:\\\\)*\\[swdbSWDB]")


MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] not in EXEMPT and "_pb" not in path.parts
]


def misreadings(text: str, *, of_the_node: bool) -> Iterator[str]:
    """Yield the calls that read text by Unicode, with what to use instead."""
    for node in (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)):
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        instead = ""
        if isinstance(node.func, ast.Attribute) and name in WITHOUT_ARGUMENTS and not _separator(node):
            instead = WITHOUT_ARGUMENTS[name]
        elif isinstance(node.func, ast.Attribute) and name in ALWAYS:
            instead = ALWAYS[name]
        elif (
            any(key.arg in {"text", "universal_newlines", "encoding"} for key in node.keywords)
            and "subprocess" in called
        ):
            instead = "bytes: in text, carriage returns become line feeds"
        elif of_the_node and called in OF_THE_NODE and not _is_a_comparison(node):
            instead = OF_THE_NODE[called]
        elif of_the_node and called.startswith("re.") and _is_unicode(node):
            instead = "re.ASCII, or classes of characters"
        if instead:
            yield f"{ast.unparse(node)}: use {instead}"


def times_by_python(text: str) -> list[str]:
    """Return where Python's own method reads a time, also one that is handed on."""
    attributes = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Attribute))
    return [f"{ast.unparse(each)}: use parse_time() or known_time()" for each in attributes if each.attr == OF_PYTHON]


def _separator(node: ast.Call) -> bool:
    return bool(node.args) and not (isinstance(node.args[0], ast.Constant) and node.args[0].value is None)


def _is_a_comparison(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Compare)


def _is_unicode(node: ast.Call) -> bool:
    if not node.args or "ASCII" in ast.unparse(node):
        return False
    constants = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
    text = "".join(each for each in constants if isinstance(each, str))
    return UNICODE_CLASSES.search(text) is not None and not text.startswith("(?a")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_text_of_others_is_read_by_unicode(path: Path) -> None:
    of_the_node = path.relative_to(PACKAGE).parts[0] in READS_THE_NODE
    assert list(misreadings(path.read_text(encoding="utf-8"), of_the_node=of_the_node)) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_times_are_read_as_go_reads_them(path: Path) -> None:
    assert times_by_python(path.read_text(encoding="utf-8")) == []


READ_BY_UNICODE = r"""
a.split()
a.split(None, 1)
a.split(maxsplit=1)
a.strip()
b''.rstrip()
a.splitlines()
p.read_text()
p.read_text(encoding='ascii')
a.isdigit()
int(a)
int(a, 16)
float('inf')
json.loads(a)
tomllib.loads(a)
re.compile('\\d')
re.compile(r'\w+', re.M)
re.compile(f'{a}\\s')
re.match('a\\b', b)
subprocess.run(a, text=True)
subprocess.Popen(a, encoding='utf-8')
"""
READ_WELL = r"""
a.split(',')
a.strip('[]')
lines(a)
int(a in b)
re.compile(rb'\d')
re.compile('\\d', re.ASCII)
re.compile('(?a)\\d')
re.compile('\\\\d')
re.compile('[0-9]')
run(a, text=b'')
parse_json(a)
"""


def test_each_of_these_is_noticed_and_no_other() -> None:
    assert [len(list(misreadings(code, of_the_node=True))) for code in READ_BY_UNICODE.split("\n")[1:-1]] == [1] * 20
    assert list(misreadings(READ_WELL, of_the_node=True)) == []


def test_a_time_that_python_reads_is_noticed() -> None:
    assert len(times_by_python("datetime.fromisoformat(a)\nmap(datetime.fromisoformat, b)\nparse_time(c)")) == 2
