"""Elements of HTML and SVG, which escape whatever they are given."""

from xml.etree.ElementTree import Element

from nodeupgrade.api.printable import printable


def element(tag: str, *children: Element | str, **attributes: str | float) -> Element:
    """Return an element; ``class_`` and ``stroke_width`` stand for ``class`` and ``stroke-width``."""
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    made = Element(tag, {name: printable(str(value)) for name, value in names.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + printable(child)
        else:
            last.tail = (last.tail or "") + printable(child)
    return made
