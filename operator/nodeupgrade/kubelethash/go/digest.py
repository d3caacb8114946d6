"""The kubelet's checksums, FNV-1a 32 and Adler-32, and the form in which they are stored.

FNV-1a in pure Python costs one multiplication per byte. Two facts make it fast enough here. The low eight bits of the
state depend only on themselves and the input, and everything else is linear: for a fixed piece of text, the next state
is `state * multiplier + addend[state & 255]`. Eras C and D print each byte as one of 256 fixed texts (" 123"), so each
such text takes a single step.
"""

from typing import NewType

HashValue = NewType("HashValue", str)
"""A container hash as the kubelet stores it: lower-case hex without padding, such as `311670a`."""

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF

_Step = tuple[int, list[int]]


def stored_form(checksum: int) -> HashValue:
    """Format a checksum as the annotation `io.kubernetes.container.hash` stores it."""
    return HashValue(f"{checksum:x}")


def fnv1a(data: bytes, state: int = _OFFSET) -> int:
    """Return the 32-bit FNV-1a of the data, continued from ``state``."""
    for byte in data:
        state = (state ^ byte) * _PRIME & _MASK
    return state


def fnv1a_of_printed_bytes(data: bytes) -> int:
    """Return the FNV-1a of `([]uint8)[123 34 …]`, which is how go-spew prints a byte slice with these bytes."""
    if not data:
        return fnv1a(b"([]uint8)[]")
    state = fnv1a(b"([]uint8)[%d" % data[0])
    steps = _STEPS
    for byte in data[1:]:
        multiplier, addend = steps[byte]
        state = (state * multiplier + addend[state & 0xFF]) & _MASK
    return fnv1a(b"]", state)


class _PrintedBytes(dict[int, _Step]):
    """The step for each byte value, computed on first use."""

    def __missing__(self, byte: int) -> _Step:
        printed = b" %d" % byte
        multiplier = pow(_PRIME, len(printed), _MASK + 1)
        addend = [(fnv1a(printed, low) - low * multiplier) & _MASK for low in range(256)]
        self[byte] = multiplier, addend
        return self[byte]


_STEPS = _PrintedBytes()
