"""Read a list object by object, as its bytes come: all of it may be larger than the reader's memory.

Pages could be small, but with a limit API servers read every pod of the cluster from etcd to find those of one node.
"""

import codecs
import re
from collections.abc import AsyncIterator

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import Keep
from nodeupgrade.text import BLANKS, parse_json, parse_json_at

_ITEMS = re.compile(f'"items":[{BLANKS}]*\\[')
_BETWEEN = f"{BLANKS},"


async def read_list(chunks: AsyncIterator[bytes], keep: Keep, largest: int | None) -> Json | None:
    """Return a list with what is kept of each of its items; ``None`` if one of them is larger than wanted.

    Raises:
        ValueError: it is not JSON, or an item is no object.
    """
    decoder, items = codecs.getincrementaldecoder("utf-8")(), list[Json]()
    head, rest, enough = "", "", 0
    async for chunk in chunks:
        rest += decoder.decode(chunk)
        if not head and (found := _ITEMS.search(rest)) is not None:
            head, rest = rest[: found.end()], rest[found.end() :]
        if head and len(rest) >= enough:
            whole, rest = _taken(rest)
            items += [keep(_object(item)) for item in whole]
            # So that a large item is not parsed anew with every few bytes of it, nor counted with what follows it.
            enough = 2 * len(rest) if largest is None else min(2 * len(rest), largest + 1)
        if largest is not None and len(rest) > largest:
            return None
    answer = _object(parse_json(head + rest.lstrip(_BETWEEN) + decoder.decode(b"", final=True)))
    return {**answer, "items": [*items, *(keep(_object(item)) for item in answer["items"])]} if head else answer


def _taken(text: str) -> tuple[list[object], str]:
    """Return the items that are there as a whole, and the text after them."""
    items, at = list[object](), 0
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        try:
            item, at = parse_json_at(text, at)
        except ValueError:
            return items, text[at:]
        items.append(item)


def _object(item: object) -> Json:
    if not isinstance(item, dict):
        raise ValueError(f"{str(item)[:80]} is no object")  # noqa: TRY004 - it is content, not a type
    return item
