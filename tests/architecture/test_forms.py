"""docs/design.md says how often a value changes its form on its way to the node; no class repeats it in secret."""

import ast
import re

from tests.architecture.test_the_house import CHECKOUT, SOURCE_ROOT, modules

MOST_FORMS = 7
SECTION = (CHECKOUT / "docs" / "design.md").read_text(encoding="utf-8").partition("## The forms of a value")[2]
WAYS = {
    value: forms.split(" → ")
    for value, forms in re.findall(r"^\| (\S.*?) \| (.* → .*) \|$", SECTION.partition("\n## ")[0], re.MULTILINE)
}
FIELDS = {name for forms in WAYS.values() for form in forms for name in re.findall(r"`([A-Z]\w+\.\w+)`", form)}
CLASSES = {name for forms in WAYS.values() for form in forms for name in re.findall(r"`([A-Z]\w+)`", form)}
OF_MUCH_ELSE = {"version", "container", "after"}
"""Names of fields that say nothing about a value by themselves."""
REPORTS = {"PastRun.to_version", "NodeForecast.to_version"}
"""Of earlier runs, or for people: nothing is decided with them."""


def declared() -> tuple[set[str], set[str]]:
    """Return the names of all classes, with those of all of their fields as ``Class.field``."""
    classes, members = set(), set()
    for path in modules():
        if path.is_relative_to(SOURCE_ROOT):
            found = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
            classes |= {each.name for each in found}
            members |= {
                f"{each.name}.{line.target.id}"
                for each in found
                for line in each.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            }
    return classes, members


def test_each_form_exists() -> None:
    classes, members = declared()

    assert FIELDS - members == set()
    assert CLASSES - classes - {"HashValue", "UpdateContainerRequest"} == set()


def test_no_value_has_more_forms_than_one_can_remember() -> None:
    assert len(WAYS) >= 3
    assert {value: forms for value, forms in WAYS.items() if len(forms) > MOST_FORMS} == {}


def test_no_other_class_repeats_one_of_these_fields() -> None:
    names = {field.partition(".")[2] for field in FIELDS} - OF_MUCH_ELSE
    repeated = {field for field in declared()[1] if field.partition(".")[2] in names}

    assert repeated == {field for field in FIELDS if field.partition(".")[2] in names} | REPORTS
