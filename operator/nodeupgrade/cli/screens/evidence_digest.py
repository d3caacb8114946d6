"""A digest over evidence, so that a copy can be compared with another, and be signed by other means."""

import hashlib
import json
from typing import Any

from nodeupgrade.api.json import Json

DIGEST = "digest"
"""The member that holds the digest, which does not cover itself."""


def sealed(document: Json) -> Json:
    """Return a document with its digest: what ``jq -cS 'del(.digest)' | sha256sum`` computes from it."""
    plain: Json = {name: _plain(value) for name, value in document.items() if name != DIGEST}
    line = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**plain, DIGEST: f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"}


def _plain(value: Any) -> Any:
    """Write whole numbers without a fraction, as jq does."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
