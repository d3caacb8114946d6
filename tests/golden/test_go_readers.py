"""Our readers beside Go's own: what `python -m tools.oracle.readers --golden FILE` recorded."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from tools.oracle.readers.deviations import deviation_of
from tools.oracle.readers.reading import READERS, Refused, ours

RECORDED = Path(__file__).parent / "go-readers.jsonl.gz"


@pytest.mark.parametrize("name", READERS)
def test_what_go_reads_is_read_alike(name: str) -> None:
    lines = map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    asked = [(base64.b64decode(line["text"]), line["go"]) for line in lines if line["reader"] == name]
    assert asked
    for text, recorded in asked:
        go = Refused(recorded) if isinstance(recorded, str) else recorded[0]
        read = ours(READERS[name], text)
        alike = read == go or (isinstance(go, Refused) and isinstance(read, Refused))
        assert alike or deviation_of(name, text, go, read), (text, go, read)
