"""Read texts as Go does, and as we do, in one form that can be compared."""

import base64
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from random import Random
from typing import Any

import yaml

from nodeupgrade.api.duration import parse_duration
from nodeupgrade.api.yaml import read_all, read_first, read_one
from nodeupgrade.kubelet.state_files.fields import read_fields
from nodeupgrade.kubelethash.errors import Misfit
from nodeupgrade.kubelethash.go import values
from nodeupgrade.node.runtimes.docker.configuration import DEFAULT_HOST, read_configuration
from nodeupgrade.text import parse_base64, parse_json, parse_nanoseconds, parse_time
from tools.oracle.readers import made_texts
from tools.oracle.readers.made_yaml import yaml_text

Value = Any  # Any: what JSON can express


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer of a reader that does not read a text."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reader:
    """One of our readers, and what it is compared with."""

    kind: str  # what Go is asked to read the text as
    made: Callable[[Random], str | bytes]
    read: Callable[[bytes], Value]


def answers(program: Path, kind: str, texts: Iterable[bytes]) -> Iterator[Value]:
    """Ask Go to read texts."""
    asked = "".join(f"{json.dumps({'kind': kind, 'text': base64.b64encode(text).decode()})}\n" for text in texts)
    found = subprocess.run([program], input=asked.encode(), capture_output=True, check=True, timeout=600)
    for line in found.stdout.split(b"\n")[:-1]:
        answer = json.loads(line)
        yield Refused(answer["error"]) if "error" in answer else plain(answer["value"])


def ours(reader: Reader, text: bytes) -> Value:
    """Read a text by our reader; an error that a reader does not declare goes through."""
    try:
        return reader.read(text)
    except (yaml.YAMLError, ValueError, Misfit) as error:
        return Refused(str(error))


def plain(value: Value) -> Value:
    """Tell apart what Python takes for equal: true and 1, 1 and 1.0."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": repr(value)}
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {"map": {key: plain(item) for key, item in value.items()}}
    raise AssertionError(value)


def _yaml(read: Callable[[bytes], Value]) -> Callable[[bytes], Value]:
    def reading(text: bytes) -> Value:
        return plain(read(text))

    return reading


def _stream(text: bytes) -> Value:
    return [document for document in read_all(text.decode()) if document is not None]


def _json(text: bytes) -> Value:
    return plain(parse_json(text))


def _quantity(text: bytes) -> Value:
    quantity = values.resource_quantity(text.decode())
    return [str(quantity.amount()), quantity.text()]


def _time(text: bytes) -> Value:
    moment = parse_time(text.decode()).astimezone(UTC)
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{moment.replace(tzinfo=None, microsecond=0).isoformat()}{fraction}Z"


def _our_duration(text: bytes) -> Value:
    return str(int(parse_duration(text.decode()).total_seconds()) * 10**9)


def _configured_duration(text: bytes) -> Value:
    return str(parse_nanoseconds(text.decode()))


def _base64(text: bytes) -> Value:
    return base64.b64encode(parse_base64(text.decode())).decode()


def _integer(text: bytes) -> Value:
    return plain(values.int32(read_first(text)))


def _port(text: bytes) -> Value:
    return plain(values.int_or_string(read_first(text)))


def _fields(text: bytes) -> Value:
    found = read_fields(text)
    kinds = {"policyname": str, "kept": bool, "number": int, "list": list, "entries": dict}
    for name, kind in kinds.items():
        if type(found.get(name)) not in {kind, type(None)}:
            raise ValueError(f"{name} is not {kind.__name__}")
    policy, kept, number, listed, entries = (found.get(name) or kind() for name, kind in kinds.items())
    values.int64(number)
    if not all(isinstance(each, str | None) for each in (*listed, *entries.values())):
        raise ValueError("not all are texts")
    texts = {name: value or "" for name, value in entries.items()}
    return plain([policy, kept, number, [each or "" for each in listed], texts])


def _daemon(text: bytes) -> Value:
    found = read_configuration(("dockerd",), text)
    hosts = [] if found.hosts == (DEFAULT_HOST,) else list(found.hosts)
    return plain([found.root, found.exec_root, hosts, found.live_restore])


READERS = {
    "first": Reader("yaml", yaml_text, _yaml(read_first)),
    "one": Reader("yaml", yaml_text, _yaml(read_one)),
    "stream": Reader("stream", yaml_text, _yaml(_stream)),
    "json": Reader("json", made_texts.json_text, _json),
    "quantity": Reader("quantity", made_texts.quantity_text, _quantity),
    "time": Reader("time", made_texts.time_text, _time),
    "duration": Reader("duration", made_texts.duration_text, _our_duration),
    "nanoseconds": Reader("duration", made_texts.duration_text, _configured_duration),
    "base64": Reader("base64", made_texts.base64_text, _base64),
    "integer": Reader("integer", made_texts.integer_text, _integer),
    "port": Reader("port", made_texts.integer_text, _port),
    "fields": Reader("fields", made_texts.state_text, _fields),
    "daemon": Reader("daemon", made_texts.daemon_text, _daemon),
}
