"""A rollout as Markdown, which has no picture."""

from collections.abc import Iterator

from nodeupgrade.cli.pages.content import Page, Section, page
from nodeupgrade.cli.reports.rollout import RolloutReport
from nodeupgrade.cli.screens.formatting import spaced
from nodeupgrade.cli.screens.markdown import escaped, markdown_table


def markdown(report: RolloutReport) -> str:
    """Return the page of a rollout."""
    return "".join(f"{line}\n" for line in _lines(page(report)))


def _lines(said: Page) -> Iterator[str]:
    yield f"# {escaped(said.title)} – {escaped(spaced(said.state))}"
    yield f"\n{escaped(said.written)}"
    yield from (f"\n> **{escaped(text)}**" for text in said.notices)
    yield ""
    yield from (f"- {escaped(figure.label)}: **{escaped(figure.value)}**" for figure in said.figures)
    for section in said.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    if not (section.facts or section.table):
        return
    yield f"\n## {escaped(section.title)}\n"
    yield from (f"- **{escaped(name)}**: {escaped(value)}" for name, value in section.facts)
    if section.table is not None:
        if section.facts:
            yield ""
        yield from markdown_table(section.table.headings, section.table.rows)
    yield from (f"\n{escaped(text)}" for text in section.after)
