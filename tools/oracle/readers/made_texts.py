"""Make JSON, quantities, times, durations, base64 and numbers at random, right and almost right."""

# ruff: noqa: E501 - lists of odd texts

import re
from collections.abc import Mapping, Sequence
from random import Random

_STRINGS = (
    b"a", b"", b"A", b"\\n", b"\\u0041", b"\\ud83d\\ude00", b"\\ud800", b"\\udc00", b"\\ud800\\ud800\\udc00", b"\\ud800a",
    b"\\uD83D\\uDE00", b"\\udc00\\ud800", b"\\ud800\\n", b"\\\\ud800", b"\\/", b"\\b\\f", b"\\x41", b"\\'", b"\\u12",
    b"\\u00e9", b"\\u0000", b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x7f",
    b"\xe2\x80\xa8", "é日".encode(), "\U0001f600".encode(), b"\t", b"\n", b"\x00", b"\x1f", b"\xef\xbb\xbf", b"\\U0041",
    b"\xf0\x9f\x98", b"\\ud800\\u0041", b"\\ud800\\", b"\\",
)  # fmt: skip
_NUMBERS = (
    b"0", b"-0", b"1", b"-1", b"01", b"+1", b"1.", b".5", b"1.0", b"1.5", b"1e3", b"1E+3", b"1e-3", b"1e", b"1e400",
    b"-1e400", b"1e-400", b"0x10", b"1_0", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"123456789012345678901234567890", b"0.1", b"-0.0", b"00", b"-",
    b"NaN", b"Infinity", b"-Infinity", b"nan", b"1.0e0", b"5e-324", b"1.7976931348623159e308", b"--1", b"1 2", b"0e0",
    b"9007199254740993.0", b"0.30000000000000004", b"1" * 400, b"\xd9\xa3",
)  # fmt: skip
_WORDS = (b"true", b"false", b"null", b"True", b"nul", b"nulll", b"undefined", b"'a'", b"a")
_GAPS = (b"",) * 12 + (b" ", b"\n", b"\t", b"\r\n", b"\x0b", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xef\xbb\xbf")
_BYTES = b'{}[]:,"\\ue0123456789tfn-+. \n\xff\xc3/*#'


def json_text(random: Random) -> bytes:
    """Return bytes that may be JSON."""
    text = _gap(random) + _json(random, 0) + _gap(random)
    match random.random():
        case chance if chance < 0.15:
            at = random.randrange(len(text) + 1)
            text = text[:at] + bytes([random.choice(_BYTES)]) * random.randrange(2) + text[at + random.randrange(2) :]
        case chance if chance < 0.17:
            text += random.choice((b"{}", b",", b"1", b"\0", b"//a", b"\n\n"))
        case chance if chance < 0.18:
            text = text.decode(errors="replace").encode(random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig")))
        case _:
            pass
    return text


def _gap(random: Random) -> bytes:
    return random.choice(_GAPS) if random.random() < 0.2 else b""


def _json(random: Random, depth: int) -> bytes:
    match random.random():
        case chance if chance < 0.25 and depth < 4:
            items = [_gap(random) + _json(random, depth + 1) + _gap(random) for _ in range(random.randrange(4))]
            return b"[" + b",".join(items) + random.choice((b"",) * 20 + (b",",)) + b"]"
        case chance if chance < 0.55 and depth < 4:
            pairs = [
                _key(random) + _gap(random) + b":" + _gap(random) + _json(random, depth + 1)
                for _ in range(random.randrange(4))
            ]
            return b"{" + b",".join(pairs) + random.choice((b"",) * 20 + (b",",)) + b"}"
        case chance if chance < 0.75:
            return _string(random)
        case chance if chance < 0.93:
            return _mostly(random, _NUMBERS, str(random.uniform(-1e6, 1e6)).encode())
        case _:
            return random.choice(_WORDS[:3] * 5 + _WORDS)


def _key(random: Random) -> bytes:
    return random.choice((b'"a"', b'"b"', b'"A"', b'""')) if random.random() < 0.8 else _json(random, 5)


def _string(random: Random) -> bytes:
    return b'"' + b"".join(random.choice(_STRINGS[:12] * 2 + _STRINGS) for _ in range(random.randrange(3))) + b'"'


def _mostly(random: Random, odd: Sequence[bytes], plain: bytes) -> bytes:
    return random.choice(odd) if random.random() < 0.5 else plain


_SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "E+2",
             "e0", "e18", "e-9", "e-12", "e19", "e100", "e400", "e401", "e", "K", "mi", "ki", "i", "Zi", "µ", "B",
             "Kib", "e1.5", "e03", "e+", "ee3", "GG", " Gi", "e-400", "Y", "ni", "h", "%", "e٣")  # fmt: skip
_BLANKS = ("",) * 20 + (
    " ",
    "\t",
    "\n",
    "\u00a0",
    "\u0085",
    "\u3000",
    "\x1c",
    "\x1f",
    "\u200b",
    "\v",
    "\u2028",
    "\ufeff",
)


def quantity_text(random: Random) -> str:
    """Return a text that may be a quantity."""
    whole = _decimal(random, 25 if random.random() < 0.2 else 6)
    fraction = random.choice(("",) * 4 + (".", f".{_decimal(random, 12)}", f".{_decimal(random, 3)}"))
    text = random.choice(("",) * 12 + ("-", "-", "+", "--", "- ")) + whole + fraction + random.choice(_SUFFIXES)
    if random.random() < 0.1:
        text = random.choice(
            ("0", "", ".", "-", "+.5", "1..2", "1,5", "1_0", "0x10", "٣", "inf", "NaN", "1" * 401, "0." + "0" * 50)
        )
    disturbed = _disturbed(random, text, "0123456789.eEKMGi+- m")
    if re.search("[eE][-+]?[0-9]{4}", disturbed):  # Go would compute for hours
        disturbed = text
    return random.choice(_BLANKS) + disturbed + random.choice(_BLANKS)


def _decimal(random: Random, longest: int) -> str:
    digits = "".join(random.choice("0000123456789") for _ in range(random.randint(0, longest)))
    return digits + random.choice(("",) * 4 + ("000", "0000000"))


def _disturbed(random: Random, text: str, letters: str, share: float = 0.1) -> str:
    if random.random() >= share:
        return text
    at = random.randrange(len(text) + 1)
    return text[:at] + str(random.choice((*letters, ""))) + text[at + random.randrange(2) :]


def time_text(random: Random) -> str:
    """Return a text that may be a time of RFC 3339."""

    def part(least: int, most: int, width: int, odd: Sequence[str]) -> str:
        return random.choice(odd) if random.random() < 0.06 else f"{random.randint(least, most):0{width}}"

    date = "-".join((part(1, 9999, 4, ("0000", "0001", "9999", "999", "10000")), part(1, 12, 2, ("00", "13", "1")),
                     part(1, 31, 2, ("00", "32", "1", "29", "30", "31"))))  # fmt: skip
    time = ":".join((part(0, 23, 2, ("24", "1", "25", "-1")), part(0, 59, 2, ("60", "1")),
                     part(0, 59, 2, ("60", "61", "1"))))  # fmt: skip
    fraction = random.choice(
        ("",) * 3 + (".5", ".123456", ".123456789", ".9999999999999", ".", ",5", ".0", ".000000001", ";5")
    )
    zone = random.choice(("Z",) * 6 + ("+00:00", "-05:00", "+14:00", "+23:59", "+24:00", "+24:60", "-24:01", "+25:00", "z", "",
                          "+0100", "+01", "+1:00", "UTC", "+00:00:00", "+01:61", "-00:00", " Z", "ZZ", "−01:00"))  # fmt: skip
    text = date + random.choice(("T",) * 15 + ("t", " ", "", "_", "T ")) + time + fraction + zone
    if random.random() < 0.03:
        text = random.choice(
            ("", "null", date, f"{date}T", "20240101T000000Z", "2024-W01-1", "now", "0", "1700000000", "2024-01")
        )
    return _disturbed(random, text, "0123456789-:.TZ+ ", 0.06)


def duration_text(random: Random) -> str:
    """Return a text that may be a duration."""

    def part() -> str:
        number = _decimal(random, 3) or str(random.randint(1, 90))
        if random.random() < 0.1:
            number = random.choice(
                (
                    "0",
                    "",
                    "9223372036854775807",
                    "9223372036854775808",
                    "2562047",
                    "2562048",
                    "999999999999999999999",
                    "٣",
                    "1e3",
                    "0x1",
                    "1_0",
                )
            )
        fraction = random.choice(("",) * 5 + (".", ".5", ".123456789123456789", f".{_decimal(random, 4)}"))
        return (
            number
            + fraction
            + random.choice(("h", "m", "s") * 4 + ("ms", "us", "µs", "μs", "ns", "d", "", "M", "S", "hr"))
        )

    text = random.choice(("",) * 10 + ("-", "+", "--", "- ")) + "".join(
        part() for _ in range(random.choice((1, 1, 1, 2, 2, 3, 0)))
    )
    if random.random() < 0.05:
        text = random.choice(
            (
                "0",
                "+0",
                "-0",
                "0.0",
                "",
                ".s",
                ".5s",
                "5",
                "-",
                "1h 30m",
                " 1s",
                "1s ",
                "1s\n",
                "9223372036s",
                "9223372037s",
                "-9223372036854775808ns",
                "PT1H",
            )
        )
    return _disturbed(random, text, "0123456789.hms-+ µn", 0.08)


def base64_text(random: Random) -> str:
    """Return a text that may be base64."""
    letters = "ABCDEFGHabcdefgh0123456789+/QgwAZz"
    text = "".join(random.choice(letters) for _ in range(random.randint(0, 12)))
    padding = "=" * (-len(text) % 4) if random.random() < 0.8 else "=" * random.randrange(4)
    text = _disturbed(random, text + padding, "=-_ \n\r\t\0é٣/+A\u00a0", 0.3)
    if random.random() < 0.1:
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(("\n", "\r\n", "\n\n", " ", "=\n")) + text[at:]
    return text + random.choice(("",) * 8 + ("\n", "\r\n", " ", "=", "A"))


def integer_text(random: Random) -> str:
    """Return a text that a manifest may have for an integer or a port."""
    limits = (
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "4294967296",
        "0",
        "-0",
        "65535",
    )
    odd = ("1.0", "1.5", "1e3", "1e-1", "0x50", "010", "0o17", "0b1", "1_000", "+80", "80.0", "'80'", '"http"', "http", "true",
           "yes", "~", "null", "1:30", ".inf", ".nan", "1e400", "''", "[80]", "{a: 1}", "!!int 5", "!!str 5", "!!float 5", "2.5e9",
           "80.", ".0", "-.0", "9.0e0", "2147483647.0", "1e21", "!!int '80'", "08", "2001-01-01", "0x7fffffff", "0x80000000")  # fmt: skip
    text = random.choice(
        (random.choice(limits), random.choice(odd), str(random.randint(-(2**33), 2**33)), str(random.randint(0, 70000)))
    )
    return _disturbed(random, text, "0123456789.e-+_x'\" ", 0.15)


_STATE = ("policyName", "PolicyName", "policyname", "policyName", "kept", "KEPT", "Kept", "\u212aept", "number", "Number", "list",
          "li\u017ft", "List", "entries", "Entries", "entrie\u017f", "other", "policy_name", "")  # fmt: skip
_OPTIONS = ("data-root", "graph", "exec-root", "hosts", "live-restore") * 3 + (
    "debug", "log-level", "Data-Root", "HOSTS", "live-re\u017ftore", "Hosts")  # fmt: skip
_VALUES = ('"a"', '"/b"', '""', "true", "false", "null", "null", "0", "1", "-7", "1.0", "1e2", "1.5", "9223372036854775807",
           "9223372036854775808", '["a"]', '["b", "c"]', "[]", "[null]", "[1]", '{"a": "b"}', '{"a": "c", "d": null}', "{}",
           '{"a": 1}', '"\\u0041"')  # fmt: skip
_FITTING = {
    "p": ('"a"', '"none"', "null"), "k": ("true", "false", "null"), "n": ("1", "-7", "null"),
    "l": ('["a"]', '["b", "c"]', "[]", "null"), "e": ('{"a": "b"}', '{"c": "d"}', "null"),
    "d": ('"/d"', "null"), "g": ('"/g"', "null"), "h": ('["fd://"]', '["unix:///x", "fd://"]', "null"),
}  # fmt: skip


def state_text(random: Random) -> str:
    """Return JSON that a kubelet may find as a state file: names in any case and repeated, values of any type."""
    return _object(random, _STATE, _FITTING)


def daemon_text(random: Random) -> str:
    """Return JSON that may be dockerd's configuration."""
    special = {"live-restore": _FITTING["k"], "exec-root": _FITTING["d"]}
    return _object(random, _OPTIONS, _FITTING | special)


def _object(random: Random, names: Sequence[str], fitting: Mapping[str, Sequence[str]]) -> str:
    chosen = [random.choice(names) for _ in range(random.choice((0, 1, 2, 2, 3, 4)))]
    pairs = []
    for name in chosen:
        fits = fitting.get(name.lower()) or fitting.get(name[:1].lower(), _VALUES)
        value = random.choice(fits if random.random() < 0.8 else _VALUES)
        pairs.append(f'"{name}": {value}')
    text = "{" + ", ".join(pairs) + "}"
    return random.choice(("[]", "null", "", text + "x", text[:-1])) if random.random() < 0.05 else text
