"""Text that others can write on a node, made to be misread: one corpus for everything that reads.

In names of processes, files, mounts, images and containers, in arguments, environments, annotations and logs.
"""

from collections.abc import Iterator
from random import Random

SEPARATORS = (
    "\n", "\r", "\r\n", "\t", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u2002", "\u2028",
    "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", " ",
)  # fmt: skip
"""What Python, or somebody else, takes for the end of a line or a blank."""
NAME_SEPARATORS = tuple(each for each in SEPARATORS if each not in {"\n", "\r\n", "\t", " "})
"""Those that the kernel writes into its tables as they are."""
DIGITS = ("٣", "³", "①", "１２", "1_0", "+1", "-1", " 1", "1.0", "1e9", "0x10", "9" * 5000, "", "nan", "inf", "--1")
"""What Python, or somebody else, takes for a number."""
BROKEN = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x00",
    b"a\x00b",
    "\udcff".encode(errors="surrogatepass"),
)
"""Not UTF-8, and NUL."""
ESCAPES = (
    "\x1b[2J", "\x1b]0;title\x07", "\u202e", "\u200b", "\\n", "\\040", "\\012", "\\x20", "\\134", "%n", "$(id)", "`id`",
    "${PATH}", "'\"", "; rm -rf /", "../../etc/passwd", "/", "-", "--", "#", "=", ":", ",", "{}", "[]", "(", ")",
    ") S 1 (", " - ",
)  # fmt: skip
OURS = (
    '00000000 {"mark":"finished","payload":{"outcome":"Upgraded"},"schema":1,"seq":1}',
    '{"mark":"done","step":"commit"}',
    "done", "began", "NSpid:\t1", "MainPID=1", "ActiveState=active", "ExecStart={ path=/bin/sh ; argv[]=/bin/sh ; ",
    "1 1 0:1 / / rw - tmpfs none rw", "0: 00000002 00000000 00010000 0001 01 1 /run/containerd/containerd.sock",
    "0::/system.slice/nodeupgrade-executor.service", "Package: kubelet\nStatus: hold ok installed",
    "io.kubernetes.container.hash", '"io.kubernetes.container.hash":"1"', "eviction manager: must evict pod(s)",
    "Kubernetes v1.33.13", "[Service]\nExecStart=/bin/sh", "unknown flag: --", "kubelet (deleted)", "1 (x) S 1 1",
)  # fmt: skip
"""What looks like our own formats, or those that we read."""
NESTED = ("[" * 100_000, '{"a":' * 100_000, "a: " * 2000, "a = " + "[" * 100_000, "- " * 2000, '"' + "\\" * 99_999)
LARGE = 10 * 1024**2

_PARTS = tuple(each.encode(errors="surrogateescape") for each in (*SEPARATORS, *DIGITS, *ESCAPES, *OURS)) + BROKEN


def pieces() -> Iterator[bytes]:
    """Yield everything above on its own, and what is too long or too deep."""
    yield from _PARTS
    yield from (each.encode() for each in NESTED)
    yield from (b"x" * LARGE, b"\n" * LARGE, b"1" * LARGE)


def hostile(valid: tuple[bytes, ...], seed: int, number: int) -> Iterator[bytes]:
    """Yield texts of the corpus, and valid texts with pieces of it in them; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - it is to be repeatable
    yield from valid
    yield from pieces()
    for _ in range(number):
        text = bytearray(random.choice(valid))
        for _ in range(random.choice((1, 1, 2, 5))):
            at = random.randrange(len(text) + 1)
            end = random.choice((at, at, at, min(len(text), at + random.randrange(1, 20))))
            text[at:end] = random.choice(_PARTS)
        yield bytes(text)
