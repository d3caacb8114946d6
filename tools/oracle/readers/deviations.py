"""Where our readers differ from Go's on purpose, and why. No other difference is excused."""

# ruff: noqa: ARG001, ARG005, E501 - all rules take the same three
import re
from collections.abc import Callable
from dataclasses import dataclass

from nodeupgrade.text import folded_name, parse_pairs
from tools.oracle.readers.reading import READERS, Refused, Value, ours, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A kind of difference: where it occurs, why it stays, and how it is recognised."""

    readers: str  # separated by blanks
    what: str
    why: str
    refusal: str = ""  # what our refusal says, where we refuse what Go reads; a regular expression
    holds: Callable[[bytes, Value, Value], bool] = lambda text, go, read: True  # the text, what Go reads, what we read


_YAML = "first one stream"
_STRUCTS = "fields daemon"
_FIELDS = "integer port"
_HALF = re.compile("[\ud800-\udfff]")


def _with_replaced_halves(text: bytes, go: Value, read: Value) -> bool:
    return bool(_replaced(read) == go)


def _replaced(value: Value) -> Value:
    match value:
        case str():
            return _HALF.sub("\ufffd", value)
        case list():
            return [_replaced(item) for item in value]
        case {"map": pairs}:
            return {"map": {_HALF.sub("\ufffd", key): _replaced(item) for key, item in pairs.items()}}
        case {"int": digits} if not -(2**63) <= int(digits) < 2**63:
            return plain(_float(digits))
    return value


def _float(digits: str) -> float:
    return float("inf") if len(digits) > 309 else float(digits)


def _repeats(text: bytes) -> bool:
    names = [folded_name(name) for name, _ in parse_pairs(text)]
    return len(names) > len({*names})


def _has_huge(text: bytes, go: Value, read: Value) -> bool:
    return isinstance(go, Refused) and re.search(rb"[0-9]{309}", text) is not None


def _begins_alike(text: bytes, go: Value, read: Value) -> bool:
    return bool(go == ours(READERS["first"], text))


def _chunks_begin_alike(text: bytes, go: Value, read: Value) -> bool:
    chunks = re.split(r"^---[^\n]*(?:\n|\Z)", text.decode(), flags=re.MULTILINE)
    return bool(go == [value for chunk in chunks if (value := ours(READERS["first"], chunk.encode())) is not None])


def _separator_has_text(text: bytes, go: Value, read: Value) -> bool:
    pattern = r"^---[^\n]*\S" if isinstance(go, Refused) else "^---#"
    return re.search(pattern, text.decode(), re.MULTILINE) is not None


def _ours_goes_on(text: bytes, go: Value, read: Value) -> bool:
    return isinstance(go, list) and isinstance(read, list) and go == read[: len(go)]


def _without_last_line_feed(text: bytes, go: Value, read: Value) -> bool:
    return not text.endswith(b"\n") and go == ours(READERS["stream"], text + b"\n")


def _below_microseconds(text: bytes, go: Value, read: Value) -> bool:
    return isinstance(go, str) and isinstance(read, str) and go.startswith(read.rstrip("Z"))


def _escaped_slash(text: bytes, go: Value, read: Value) -> bool:
    return isinstance(go, Refused) and "unknown escape character" in go.reason and b"\\/" in text


DEVIATIONS = (
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what="tags that YAML does not define, types of lists and maps, !!timestamp: refused",
        why="Go ignores them; nothing in a cluster has them, and a reader that ignores types invites others",
        refusal="does not exist|nothing follows a !|found undefined tag handle|%TAG|while (scanning|parsing) a (tag|node)",
    ),
    Deviation(
        readers=_YAML,
        what="two keys that are one in JSON, such as 1 and '1': refused",
        why="which of them counts, Go leaves to chance",
        refusal="left to chance",
    ),
    Deviation(
        readers=_YAML,
        what="a key that is null, a list, a map or a number by an alias, in what Go drops: refused",
        why="whatever is read is read whole; nobody writes such keys",
        refusal="a key is not a string",
    ),
    Deviation(
        readers="stream",
        what="an empty document with an end: read",
        why="YAML allows it; there is nothing in it",
        holds=lambda text, go, read: isinstance(go, Refused) and "expected node content" in go.reason,
    ),
    Deviation(
        readers="stream",
        what="directives before a document: read",
        why="YAML allows them; kubectl splits the stream behind them",
        holds=lambda text, go, read: isinstance(go, Refused) and "<document start>" in go.reason,
    ),
    Deviation(
        readers=_YAML,
        what="a colon that ends a text within brackets: refused",
        why="libyaml takes it for a key without a value, or refuses, since 0.2",
        refusal="found unexpected ':'",
    ),
    Deviation(
        readers=_YAML,
        what="a question mark in a text within brackets: read",
        why="libyaml takes it for text since 0.2, as YAML does",
        holds=lambda text, go, read: isinstance(go, Refused) and "expected ','" in go.reason and b"?" in text,
    ),
    Deviation(
        readers=_YAML,
        what="an infinity that a later equal key replaces: refused",
        why="it is refused where it is read; Go refuses it where JSON is written",
        refusal="JSON has no infinity",
    ),
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what="!!binary that is not text: refused",
        why="JSON cannot hold it; Go reads U+FFFD instead of each of its bytes",
        refusal="!!binary is not base64, or not of text",
    ),
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what="a line that begins with a byte order mark: refused",
        why="libyaml drops the mark, Go keeps it as text",
        refusal="byte order mark",
    ),
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what="a byte order mark where a text would begin: refused",
        why="libyaml drops the mark, Go keeps it as text",
        refusal="while scanning",
        holds=lambda text, go, read: b"\xef\xbb\xbf" in text[3:],
    ),
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what=r"the escape \' in double quotes: refused",
        why="libyaml does not have it since 0.2; nor has YAML",
        refusal="unknown escape character",
        holds=lambda text, go, read: b"\\'" in text,
    ),
    Deviation(
        readers=f"{_YAML} {_FIELDS}",
        what=r"the escape \/ in double quotes: read as JSON does",
        why="libyaml has it since 0.2, YAML since 1.2; there is no other value that it could have",
        holds=_escaped_slash,
    ),
    Deviation(
        readers="one",
        what="more than one document, or something broken behind the first: refused",
        why="our own files have one document; Go reads the first, and does not look at the rest",
        refusal="",
        holds=lambda text, go, read: isinstance(read, Refused) and _begins_alike(text, go, read),
    ),
    Deviation(
        readers="stream",
        what="something broken behind the first document between two separators: refused",
        why="Go does not look at it; a file that is applied should be read to its end",
        holds=lambda text, go, read: isinstance(read, Refused) and _chunks_begin_alike(text, go, read),
    ),
    Deviation(
        readers="stream",
        what="something without a separator behind a document: refused",
        why="Go does not look at it; a file that is applied should be read to its end",
        refusal="expected <document start>|while scanning for the next token",
    ),
    Deviation(
        readers="stream",
        what="a carriage return before an end of line with one of its own: read as an end of line",
        why="kubectl drops the second before it reads YAML; kubelets do not",
        holds=lambda text, go, read: go == ours(READERS["stream"], text.replace(b"\r\n", b"\n")),
    ),
    Deviation(
        readers="stream",
        what="a document that begins on the line of its separator: read",
        why="YAML allows it; kubectl splits a stream by lines before it reads YAML, and refuses",
        holds=_separator_has_text,
    ),
    Deviation(
        readers="stream",
        what="documents behind a separator that is no line of its own to Go, or behind an end: read",
        why="YAML allows them; kubectl drops them without a word",
        holds=_ours_goes_on,
    ),
    Deviation(
        readers="stream",
        what="a stream without a line feed at its end: the last text has none",
        why="kubectl appends one before it reads YAML; kubelets do not",
        holds=_without_last_line_feed,
    ),
    Deviation(
        readers="json",
        what="half of a surrogate pair stays, and an integer beyond 64 bits stays exact",
        why="names of files survive our own files so; what prints as Go does replaces or refuses them",
        holds=_with_replaced_halves,
    ),
    Deviation(
        readers="json",
        what="an integer of more than 308 digits: read",
        why="whatever takes an integer has bounds of its own",
        holds=_has_huge,
    ),
    Deviation(
        readers="json",
        what="bytes that are not UTF-8: refused",
        why="Go reads each as U+FFFD; in our own files they are damage, and nothing in a cluster writes them",
        refusal="codec can't decode",
    ),
    Deviation(
        readers=_STRUCTS,
        what="null in place of an object: refused",
        why="to Go it says nothing; no program writes it, and whoever did may have meant something",
        holds=lambda text, go, read: text == b"null" and isinstance(read, Refused),
    ),
    Deviation(
        readers=_STRUCTS,
        what="a list or map of a wrong type, or with wrong items, that the same name replaces later: not looked at",
        why="Go refuses it where it is read; no program writes a name twice",
        holds=lambda text, go, read: isinstance(go, Refused) and "cannot unmarshal" in go.reason and _repeats(text),
    ),
    Deviation(
        readers=_STRUCTS,
        what="null within a list that the same name replaces: an empty text",
        why="Go leaves what the list had there before; no program writes a name twice",
        holds=lambda text, go, read: b"[null]" in text and _repeats(text) and not isinstance(read, Refused),
    ),
    Deviation(
        readers=_STRUCTS,
        what="a name that no field has, with values of several types: refused",
        why="Go does not look at them; no program writes a name twice",
        refusal="has values of several types",
    ),
    Deviation(
        readers="daemon",
        what="an empty file: read",
        why="dockerd reads it as no options from 23.0 on; an earlier one has not started with it",
        holds=lambda text, go, read: not text,
    ),
    Deviation(
        readers="quantity",
        what="a quantity so large that Go writes another number than it reads: refused",
        why="a hash of it would be of a number that nobody wrote",
        refusal="loses its suffix",
    ),
    Deviation(
        readers="quantity",
        what="exponents beyond 400, texts beyond 400 characters: refused",
        why="Go computes with as many digits, for minutes; nobody has so many bytes",
        refusal="beyond the range|is not a quantity$",
        holds=lambda text, go, read: len(text) > 400 or re.search(rb"[eE][-+]?0*[0-9]{3}", text) is not None,
    ),
    Deviation(
        readers="time",
        what="what is below a microsecond is cut off",
        why="Python's times have none, and API servers write none",
        holds=_below_microseconds,
    ),
    Deviation(
        readers="time",
        what="times outside of the years 1 to 9999: refused",
        why="Python has none",
        refusal="years 1 to 9999|year 0 is out of range",
    ),
    Deviation(
        readers="duration",
        what="signs, fractions, other units and other orders: refused",
        why="the fields of our API are positive and in whole seconds; the pattern in their CRDs says so",
        refusal="is not a duration such as",
    ),
)


def deviation_of(reader: str, text: bytes, go: Value, read: Value) -> Deviation | None:
    """Return the deviation that a difference belongs to; ``None`` if it is not written down."""
    return next((each for each in DEVIATIONS if _belongs(each, reader, text, go, read)), None)


def _belongs(each: Deviation, reader: str, text: bytes, go: Value, read: Value) -> bool:
    if reader not in each.readers.split(" "):
        return False
    if each.refusal and not (isinstance(read, Refused) and re.search(each.refusal, read.reason)):
        return False
    return each.holds(text, go, read)
