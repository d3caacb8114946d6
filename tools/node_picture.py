"""The way of one node, as a picture for README.md. Widths are not to scale."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from nodeupgrade.cli.pages.elements import element

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT = 120, 940
STEPS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (120, ("check the node,", "prove every hash")),
    (290, ("stop the", "kubelet")),
    (370, ("rewrite", "hashes")),
    (450, ("restart the", "runtime")),
    (540, ("read", "back")),
    (610, ("swap the", "binary")),
    (690, ("start the", "kubelet")),
    (780, ("verify, for", "a minute")),
    (880, ("done",)),
)
"""Where each step begins, and its name."""
STOPPED, STARTED, VERIFIED = 290, 690, 880
SHIELD = 590

COLOURS = {
    "": {"page": "#ffffff", "text": "#1d2530", "faint": "#5b6675", "line": "#d8dee6", "old": "#8795a8",
         "new": "#3b6fd4", "kept": "#1a7f45", "shield": "#b47a00", "bad": "#c02a32"},
    "-dark": {"page": "#12161c", "text": "#e4e9f0", "faint": "#98a4b3", "line": "#2c3541", "old": "#6b788a",
              "new": "#6d9bf5", "kept": "#4cc47f", "shield": "#e3b341", "bad": "#ff7b7f"},
}  # fmt: skip
"""By what is added to the picture's name, as for the others."""


def picture(colours: dict[str, str]) -> str:
    """Return the picture as SVG."""
    title = element("title", "The way of one node: its containers run on while the kubelet is exchanged")
    background = element("rect", width=WIDTH, height=HEIGHT, rx=8, fill=colours["page"])
    root = element(
        "svg",
        title,
        background,
        *_steps(colours),
        *_lanes(colours),
        *_way_back(colours),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        font_family="system-ui, Segoe UI, Roboto, Helvetica, Arial, sans-serif",
        font_size=14,
    )
    ET.indent(root)
    return f"{ET.tostring(root, encoding='unicode')}\n"


def _steps(colours: dict[str, str]) -> Iterator[Element]:
    for number, (at, words) in enumerate(STEPS):
        yield element("line", x1=at, x2=at, y1=20, y2=214, stroke=colours["line"])
        for line, text in enumerate(words):
            weight = "600" if number == len(STEPS) - 1 else "400"
            yield element("text", text, x=at + 5, y=34 + 18 * line, fill=colours["text"], font_weight=weight)


def _lanes(colours: dict[str, str]) -> Iterator[Element]:
    yield from _lane("kubelet", 76, colours)
    yield from _bar((LEFT, STOPPED), 76, "old version", colours["old"], colours)
    yield from _bar((STARTED, RIGHT), 76, "new version", colours["new"], colours)
    middle = (STOPPED + STARTED) / 2
    yield element("text", "none, about a second", x=middle, y=94, fill=colours["faint"], text_anchor="middle")
    yield from _lane("containers", 124, colours)
    yield from _bar((LEFT, RIGHT), 124, "the same instances, before and after", colours["kept"], colours)
    yield from _lane("shield", 172, colours)
    yield from _bar((SHIELD, VERIFIED), 172, "refuses what would end them", colours["shield"], colours)


def _lane(name: str, top: int, colours: dict[str, str]) -> Iterator[Element]:
    yield element("text", name, x=20, y=top + 19, fill=colours["text"], font_weight="600")


def _bar(span: tuple[int, int], top: int, text: str, colour: str, colours: dict[str, str]) -> Iterator[Element]:
    begin, end = span
    yield element("rect", x=begin, y=top, width=end - begin, height=28, rx=4, fill=colour)
    middle = (begin + end) / 2
    yield element("text", text, x=middle, y=top + 19, fill=colours["page"], text_anchor="middle", font_weight="600")


def _way_back(colours: dict[str, str]) -> Iterator[Element]:
    before, after = (LEFT + STOPPED) // 2, VERIFIED - 10
    arrow = f"M {after} 222 V 244 H {before} V 228 m -5 7 l 5 -7 l 5 7"
    yield element("path", d=arrow, fill="none", stroke=colours["bad"], stroke_width=2)
    said = "anything wrong, a crash or a power cut: every step is undone, and the old kubelet runs again"
    yield element("text", said, x=(before + after) / 2, y=266, fill=colours["bad"], text_anchor="middle")
