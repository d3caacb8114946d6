"""The checksums of the kubelet: FNV-1a 32 and Adler-32, and how their value is stored.

FNV-1a in pure Python costs one multiplication for every byte. Two facts make it fast enough. The low eight bits of
the state develop by themselves, and everything else is linear: for a fixed piece of text, the next state is
`state * multiplier + addend[state & 255]`. Each byte that eras C and D print is one of 256 fixed texts (" 123"), so a
whole such text is one step.
"""

import zlib
from typing import NewType

HashValue = NewType("HashValue", str)
"""A container hash as the kubelet stores it: lower-case hex without padding, such as `311670a`."""

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF

_Step = tuple[int, list[int]]


def stored_form(checksum: int) -> HashValue:
    """A checksum as the annotation `io.kubernetes.container.hash` holds it."""
    return HashValue(f"{checksum:x}")


def fnv1a(data: bytes, state: int = _OFFSET) -> int:
    """FNV-1a, 32 bits, continued from a state."""
    for byte in data:
        state = (state ^ byte) * _PRIME & _MASK
    return state


def adler32(data: bytes) -> int:
    """Adler-32."""
    return zlib.adler32(data)


def fnv1a_of_printed_bytes(data: bytes) -> int:
    """FNV-1a of `([]uint8)[123 34 …]`, which is how go-spew prints a byte slice with these bytes."""
    if not data:
        return fnv1a(b"([]uint8)[]")
    state = fnv1a(b"([]uint8)[%d" % data[0])
    steps = _STEPS
    for byte in data[1:]:
        multiplier, addend = steps[byte]
        state = (state * multiplier + addend[state & 0xFF]) & _MASK
    return fnv1a(b"]", state)


class _PrintedBytes(dict[int, _Step]):
    """The step for each byte value, made when first needed."""

    def __missing__(self, byte: int) -> _Step:
        printed = b" %d" % byte
        multiplier = pow(_PRIME, len(printed), _MASK + 1)
        addend = [(fnv1a(printed, low) - low * multiplier) & _MASK for low in range(256)]
        self[byte] = multiplier, addend
        return self[byte]


_STEPS = _PrintedBytes()
