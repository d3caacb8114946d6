"""Reads the validity period of a certificate from its PEM and the DER (RFC 5280) inside."""

import base64
import binascii
import re
from datetime import UTC, datetime

from nodeupgrade.text import BLANKS

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _UTC_TIME, _TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """Return notBefore and notAfter of the first certificate in a PEM file.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    found = _BLOCK.search(pem)
    if found is None:
        raise ValueError("it has no certificate")
    try:
        certificate = base64.b64decode(found[1].translate(None, BLANKS.encode()), validate=True)
        signed = _content(_content(certificate, _SEQUENCE)[0], _SEQUENCE)[0]
        if signed[0] == _VERSION:  # optional
            signed = _content(signed, _VERSION)[1]
        for _ in ("serial number", "algorithm", "issuer"):
            signed = _content(signed, signed[0])[1]
        first, rest = _moment(_content(signed, _SEQUENCE)[0])
        return first, _moment(rest)[0]
    except (binascii.Error, IndexError) as error:
        raise ValueError(f"its certificate is damaged: {error}") from error


def _moment(data: bytes) -> tuple[datetime, bytes]:
    text, rest = _content(data, data[0])
    if data[0] not in {_UTC_TIME, _TIME}:
        raise ValueError("its certificate has no validity dates")
    digits = text.decode("ascii", errors="replace")
    if data[0] == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), rest


def _content(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the element that data begins with, and the rest."""
    if data[0] != tag:
        raise ValueError("its certificate is damaged")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise ValueError("its certificate is truncated")
    return data[start : start + length], data[start + length :]
