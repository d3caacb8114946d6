"""Tests that texts from others are only text on the page, and that the page of any fleet is bounded."""

import re
from datetime import timedelta
from html.parser import HTMLParser

from nodeupgrade.cli.pages.content import FAILURES_TOLD, NODES_LISTED
from nodeupgrade.cli.pages.html import html
from nodeupgrade.cli.pages.markdown import markdown
from nodeupgrade.cli.reports.rollout import RolloutReport, rollout_report
from tests.builders.finished_rollouts import BEGAN, finished_rollout, finished_task, finished_tasks

EVIL = (
    "<script>alert(1)</script>'\"><img src=x onerror=alert(1)><svg onload=alert(1)></svg></td></table></title></style>"
    "<style>*{display:none}</style><meta http-equiv=refresh content=0;url=https://evil.example>"
    "&#60;b&gt;<!-- ]]> {{7*7}}"
    "\x00\x1b]0;pwned\x07\u202e\u2028\ufeff\r\n| --- |\n# x\n```\n[y](javascript:alert(1)) ![z](https://evil.example/z)"
)


class Structure(HTMLParser):
    """What a browser would see: elements with the names of their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements = list[tuple[str, ...]]()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def told(text: str) -> RolloutReport:
    tasks = [finished_task(f"node{text}-{each}", BEGAN, failed=each == 0, text=text) for each in range(2)]
    return rollout_report(finished_rollout(tasks, name=f"up{text}", text=text), tasks, BEGAN + timedelta(days=1))


def test_no_text_from_others_adds_an_element_or_an_attribute() -> None:
    hostile, harmless = Structure(html(told(EVIL))), Structure(html(told("harmless")))

    assert hostile.elements == harmless.elements
    assert {each for each, *_ in hostile.elements}.isdisjoint({"script", "img", "a", "link", "iframe", "object"})
    assert hostile.text.count("<script>alert(1)</script>") > 10
    assert not [letter for letter in html(told(EVIL)) if not (letter.isprintable() or letter == "\n")]


def test_no_text_from_others_adds_markup_to_markdown() -> None:
    hostile, harmless = markdown(told(EVIL)).splitlines(), markdown(told("harmless")).splitlines()

    assert len(hostile) == len(harmless)
    for line, other in zip(hostile, harmless, strict=True):
        assert marks(line) == marks(other), line


def marks(line: str) -> str:
    """The characters that are markup: those of a meaning in Markdown without a backslash before them."""
    found, letters = "", iter(line)
    for letter in letters:
        if letter == "\\":
            next(letters)
        elif letter in "`*_[]<>|#~&":
            found += letter
    return found


def test_the_page_of_five_thousand_nodes_is_bounded_and_has_every_node() -> None:
    tasks = finished_tasks(5000, at_once=50, failed=range(0, 5000, 40))
    report = rollout_report(finished_rollout(tasks), tasks, BEGAN + timedelta(days=1))

    page = html(report)

    assert len(page) < 2_500_000
    assert {*re.findall(r"<td[^>]*>(node-\d+)</td>", page)} == {task.name for task in tasks}
    assert page.count("<rect") < 2000
    assert "and 25 more nodes, with its reason in the table of nodes" in page
    assert FAILURES_TOLD == 100


def test_of_more_nodes_those_that_failed_are_listed() -> None:
    tasks = finished_tasks(NODES_LISTED + 10, at_once=50, failed=[NODES_LISTED + 9])
    report = rollout_report(finished_rollout(tasks), tasks, BEGAN + timedelta(days=1))

    page = html(report)

    assert f">{tasks[-1].name}<" in page
    assert f">{tasks[-2].name}<" not in page
    assert "and 10 more nodes" in page
