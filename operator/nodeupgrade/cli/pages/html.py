"""A rollout as one HTML page: no script, nothing to load, and every text from others is only text."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from nodeupgrade.cli.pages.content import Figure, Section, State, Table, page
from nodeupgrade.cli.pages.elements import element
from nodeupgrade.cli.pages.picture import CLASSES, picture
from nodeupgrade.cli.reports.rollout import RolloutReport
from nodeupgrade.cli.screens.formatting import BAD, BUSY, GOOD, MARKS, STYLES, spaced

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever the page contained, a browser would load and run nothing."""

_CLASSES = {
    **dict.fromkeys(("Nodes", "Number", "No kubelet (s)", "Containers", "Rewritten", "Restarted", "Took"), "number"),
    **dict.fromkeys(("Others", "Approved"), "wrap"),
    **dict.fromkeys(("Node", "Wave", "Reason", "Step"), "name"),
    **dict.fromkeys(("Cause", "Which"), "long"),
    **dict.fromkeys(("Started", "Ended"), "moment"),
    "SHA-256": "digest",
}
"""Classes of cells by the heading of their column. Names are wrapped in print only, and others never."""
_LEGEND = ((GOOD, "succeeded"), (BAD, "failed or refused"), (BUSY, "in flight"))

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1d2530; --faint: #5b6675; --line: #d8dee6; --tint: #f3f5f8;
  --good: #1a7f45; --bad: #c02a32; --busy: #9a6400; --wave: #c9d3e0; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #12161c; --text: #e4e9f0; --faint: #98a4b3;
  --line: #2c3541; --tint: #1a2028; --good: #4cc47f; --bad: #ff7b7f; --busy: #e3b341; --wave: #3a4858; } }
@media print { :root { color-scheme: light; } }
@page { size: landscape; margin: 12mm; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 80rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; break-after: avoid; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.written, .after, figcaption { color: var(--faint); font-size: .87rem; }
.notice { border-left: 4px solid var(--busy); background: var(--tint); padding: .5rem .75rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .busy { color: var(--busy); }
.state { white-space: nowrap; font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: .6rem; margin: 0; padding: 0; list-style: none; }
.figures li { flex: 1 1 9rem; border: 1px solid var(--line); border-radius: 6px; padding: .5rem .75rem; }
.figures b { display: block; font-size: 1.35rem; line-height: 1.3; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.figures span { color: var(--faint); font-size: .87rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .3rem 1rem; margin: 0 0 .8rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; line-height: 1.4; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; white-space: nowrap; }
td { white-space: nowrap; }
td.long, td.wrap { white-space: normal; overflow-wrap: break-word; max-width: 24rem; }
td.long { min-width: 16rem; max-width: none; }
td.digest { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .78rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr { break-inside: avoid; }
figure { margin: 0; break-inside: avoid; } figcaption { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem;
  margin-top: .4rem; }
.picture { display: block; overflow: hidden; font-size: 11px; }
.picture text { fill: var(--text); } .picture .time { fill: var(--faint); }
.picture .grid { stroke: var(--line); }
rect.good { fill: var(--good); } rect.bad { fill: var(--bad); } rect.busy { fill: var(--busy); }
rect.faint { fill: var(--wave); } rect.plain { fill: var(--faint); }
@media (max-width: 64rem) { td.moment { white-space: normal; min-width: 6rem; } }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  td.wrap { min-width: 11rem; } .told thead { display: none; } .told, .told tbody, .told tr { display: block; }
  .told tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .told td { display: block; border: 0; padding: 0; }
  .told td.number { display: none; } .told td.long { min-width: 0; overflow-wrap: anywhere; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .table { overflow: visible; }
  table { font-size: 7pt; } th, td { padding-right: .6em; } td.digest { font-size: 6.5pt; }
  td.long, td.wrap, td.name { white-space: normal; overflow-wrap: anywhere; min-width: 7em;
  } td.long { width: 50%; } thead { display: table-header-group; } }
"""


def html(report: RolloutReport) -> str:
    """Return the page of a rollout."""
    said = page(report)
    state = element("span", _marked(said.state), class_=f"state {_class(said.state)}")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", said.title),
        _style(),
    )
    body = element(
        "body",
        element("header", element("h1", said.title, " – ", state), element("p", said.written, class_="written")),
        *(element("p", text, class_="notice") for text in said.notices),
        element("ul", *map(_figure, said.figures), class_="figures"),
        *(_section(each, report) for each in said.sections),
    )
    root = element("html", head, body, lang="en")
    ET.indent(root, space="")
    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"


def _style() -> Element:
    style = Element("style")  # not through ``element``, which would show line feeds as escapes
    style.text = _STYLE
    return style


def _figure(figure: Figure) -> Element:
    return element("li", element("b", figure.value, class_=CLASSES[figure.style]), element("span", figure.label))


def _section(section: Section, report: RolloutReport) -> Element:
    return element("section", element("h2", section.title), *_parts(section, report))


def _parts(section: Section, report: RolloutReport) -> Iterator[Element]:
    if section.picture and (drawn := picture(report)) is not None:
        legend = (element("span", f"{MARKS[style]} {words}", class_=CLASSES[style]) for style, words in _LEGEND)
        yield element("figure", drawn, element("figcaption", element("span", "waves above, nodes below"), *legend))
    if section.facts:
        pairs = (part for name, value in section.facts for part in (element("dt", name), element("dd", value)))
        yield element("dl", *pairs)
    if section.table is not None:
        yield element("div", _table(section.table), class_="table")
    yield from (element("p", text, class_="after") for text in section.after)


def _table(table: Table) -> Element:
    headings = (element("th", name, **_styled(name)) for name in table.headings)
    rows = (
        element("tr", *(_cell(name, text) for name, text in zip(table.headings, row, strict=True)))
        for row in table.rows
    )
    told = {"class_": "told"} if any(_CLASSES.get(name) == "long" for name in table.headings) else {}
    return element("table", element("thead", element("tr", *headings)), element("tbody", *rows), **told)


def _cell(heading: str, text: str) -> Element:
    if isinstance(text, State):
        return element("td", _marked(text), class_=f"state {_class(text)}")
    return element("td", text, **_styled(heading))


def _styled(heading: str) -> dict[str, str]:
    return {"class_": _CLASSES[heading]} if heading in _CLASSES else {}


def _marked(state: State) -> str:
    return f"{MARKS[STYLES.get(state, '')]} {spaced(state)}"


def _class(state: State) -> str:
    return CLASSES[STYLES.get(state, "")]
