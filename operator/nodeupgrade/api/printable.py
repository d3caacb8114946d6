"""Makes text from others safe for a terminal, an event or a notice.

Whoever is root on a node writes the status of its task, and names of files and images can be anything. Printed as
they are, such texts could clear a screen, set its title, reverse the order of reading, or look like lines of ours.
"""

from nodeupgrade.api.limits import MESSAGE_LENGTH, shorten


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with a visible escape, such as ``\x1b`` or ``\u202e``, for all that is not seen as a character.

    These are controls (also ESC, which begins every sequence for terminals, line feeds and tabs), marks that change the
    order of reading, zero-width characters, separators of lines and paragraphs, unusual spaces, lone surrogates, and
    whatever Unicode has not assigned: everything of which ``str.isprintable`` is false.

    Args:
        text: A text from others.
        keep: Characters to leave as they are: a line feed, where the text is laid out by us.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else _escape(letter) for letter in text)


def stored(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Return a text from others as the API stores it: printable, and of at most ``length`` characters."""
    return shorten(printable(text), length)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
