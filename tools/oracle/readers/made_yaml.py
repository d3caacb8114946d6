"""Make YAML at random: what Kubernetes' users write, and what only a parser's author would think of."""

# ruff: noqa: E501 - lists of odd texts

from random import Random

_PLAIN = (
    "a", "web", "yes", "Yes", "YES", "no", "on", "Off", "y", "N", "true", "TRUE", "True", "tRue", "false", "null",
    "Null", "NULL", "nUll", "~", "", "=", "<<", ".inf", "-.INF", "+.Inf", ".iNf", ".nan", ".NaN", ".NAN", "inf", "NaN",
    "2001-12-14", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10 -5", "2002-1-1", "1:30", "190:20:30.15",
    "0x", "0x_", "0b", "0b2", "0o17", "0o8", "08", "010", "-010", "+010", "0_8", "0x1F", "-0x1f", "0X1f", "0b1_1",
    "-0b11", "0B1", "0O7", "00", "-0", "+0", "0.", ".0", "-0.0", "0e0", "-0e3", "1_000", "1__0", "_1", "1_", "-_8",
    "+_8", "1e3", "1E+3", "1e-3", "1e", "e3", "1.e3", ".5", "+.5", "-.5", ".5_", ".5_0", "._5", "1._5", "1_.5", "1.5_",
    "1e1_0", "1e400", "-1e400", "1e-400", "0x1p3", "0x1.8p1", "1.5.2", "1,5", "9223372036854775807", "-0x8000000000000000",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "0xFFFFFFFFFFFFFFFF", "0x10000000000000000", "01777777777777777777777", "+1", "- 1", "1e21",
    "123456789012345678901.0", "1e20", "0.000001", "1e-7", "1.0", "1.50", "100m", "1Gi", "a b", "a:b", "a: b", "a #b",
    "a#b", "#b", "?", "? a", "-", "-a", "- a", ":", ":a", "a:", "::", "*", "*a", "&", "&a", "!", "!a", "|", ">", "%a",
    "@a", "`a", "'a", '"a', "a'b", 'a"b', "a,b", "a]b", "a}b", "a[b", "{a", "[a", "---", "...", "--- a", "a\\nb", "日本",
    "\u00a0", "\u0085", "\u2028", "a\u2028b", "\ufeff", "\U0001f600", "٣", "\u200b", "tab\there", "a\tb", "\ta", "a\t",
    "--a", "1 2", "0 ", "1#2", "1 #2", "http://a:80/b?c#d", "-1.5e+3", "+12e03", "12e03", "0123456789", "0888", "1_0.0_1",
)  # fmt: skip
_QUOTED = (
    '"a"', '""', '"\\n"', '"\\x41"', '"\\u263a"', '"\\U0001F600"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\/"', '"\\e"',
    '"\\0"', '"\\_"', '"\\N"', '"\\L"', '"\\P"', '"\\a\\b\\t\\v\\f\\r"', '"\\ "', '"\\q"', '"\\x4"', '"a\\\n  b"',
    '"a\n  b"', '"a\n\n  b"', '"a \n b"', '"a\t\n\tb"', '"\\"', '"1"', "'1'", "'a'", "''", "'it''s'", "'a\n  b'",
    "'a\n\n  b'", "'yes'", '"null"', "'<<'", '"a: b"', "'# a'", '"\t"', "'\t'", '"\\\t"', '"\u0085"', '"\u2028a"',
    '"a\u0085b"', '"a\r\n b"', "'a\r b'", '"\\U00110000"', '"\\xff"', '"\\ufffe"', '"\\u0000"', '"a" b', '"a"b', '"a"#b',
)  # fmt: skip
_TAGS = (
    "!!str", "!!int", "!!float", "!!bool", "!!null", "!!binary", "!!timestamp", "!!seq", "!!map", "!!set", "!!omap",
    "!!merge", "!!value", "!", "!a", "!!x", "!<tag:yaml.org,2002:str>", "!<tag:yaml.org,2002:int>", "!e!a", "!!",
    "!<!a>", "!!python/name:a", "!!s%74r",
)  # fmt: skip
_BINARY = ("aGk=", "aGk", "aG k=", "/w==", "YR==", "", '"aG\\nk="', "'a'", "aGk==", "-_8=", "4pi6", "gICA")
_KEYS = ("a", "b", "c", "name", "1", "1.0", "0x10", "1e3", "yes", "~", "null", ".inf", "1.5", "''", '"a"', "'b'", "<<",
         "=", "A", "2001-01-01", "? a", "? [a]", "[a]", "{a: 1}", "!!int 1", "!!str 1", "&k a", "*x", "true", "on",
         "0.1", "123456789.5", "1e300", "18446744073709551615", "-1", "a b", "01", "''", "", ".nan", "-.inf", "1e21",
         "100000000000000000000", "!!binary aGk=", "0.30000000000000004", "16777217.0", "1e-7", "0o7", "1_0")  # fmt: skip
_LETTERS = "ab01 \t\n\r:-?,[]{}#&*!|>'\"%@`.~<=_+\\eExyn/\ufeff\u0085\u2028\u00e9"


def yaml_text(random: Random) -> str:
    """Return a text that may be YAML."""
    match random.random():
        case chance if chance < 0.2:
            text = f"a: {_scalar(random)}"
        case chance if chance < 0.25:
            text = "".join(random.choice(_LETTERS) for _ in range(random.randint(1, 12)))
        case chance if chance < 0.35:
            text = _digits(random)
        case _:
            text = _block(random, 0, 0)
    text = _several(random, text)
    if random.random() < 0.25:
        text = _mutated(random, text)
    if random.random() < 0.06:
        text = text.replace("\n", random.choice(("\r\n", "\r", "\u0085", "\u2028", "\n\n")))
    return ("\ufeff" if random.random() < 0.02 else "") + text


def _several(random: Random, text: str) -> str:
    if random.random() < 0.1:
        text = random.choice(("---\n", "--- ", "---\t", "%YAML 1.1\n---\n", "%YAML 1.2\n---\n", "%YAML 2.0\n---\n",
                              "%TAG !e! tag:e,2000:\n---\n", "# c\n", "\n", "...\n", "%A b\n---\n", "---\n---\n",
                              " \n", "\t\n", "---#a\n", "--- # a\n", "--- |\n", "--- !!map\n", "%YAML 1.1\n"))  # fmt: skip
        text = random.choice((text, text.rstrip())) + _block(random, 0, 1)
    if random.random() < 0.1:
        end = random.choice(("\n---\n", "\n...\n", "\n--- ", "\n---", "\n...", "\n---\n---\n", "\n--- # c\n", "\n----\n",
                             "\n--- >\n", "\n... # c\n", "\n...\n---\n", "\n---\n...\n", "\n---\t\n", "\n ---\n",
                             "\n---a\n", "\r\n---\r\n"))  # fmt: skip
        text += end + (_block(random, 0, 1) if random.random() < 0.7 else "")
    return text


def _block(random: Random, indent: int, depth: int) -> str:
    pad = " " * indent
    kind = random.random() if depth < 4 else 1.0
    if kind < 0.45:
        return "".join(_pair(random, pad, indent, depth) for _ in range(random.randint(1, 3)))
    if kind < 0.65:
        return "".join(f"{pad}- {_value(random, indent, depth)}\n" for _ in range(random.randint(1, 3)))
    return f"{pad}{_scalar(random)}\n"


def _pair(random: Random, pad: str, indent: int, depth: int) -> str:
    key = random.choice(_KEYS) if random.random() < 0.5 else random.choice("abc")
    if random.random() < 0.05:
        key = random.choice(_PLAIN)
    separator = random.choice((": ",) * 12 + (":", ":\t", " : ", ":  ", "\t: ", "\n: ", ":\n"))
    return f"{pad}{key}{separator}{_value(random, indent, depth)}\n"


def _value(random: Random, indent: int, depth: int) -> str:
    anchor = random.choice(("&x ", "&y ", "*x", "*y", "&x\n")) if random.random() < 0.15 else ""
    tag = f"{random.choice(_TAGS)} " if random.random() < 0.06 else ""
    if anchor.startswith("*"):
        return anchor
    match random.random():
        case chance if chance < 0.3 and depth < 4:
            deeper = indent + random.choice((0, 1, 2, 2, 2, 4))
            return f"{anchor}{tag}\n{_block(random, deeper, depth + 1)}".rstrip("\n")
        case chance if chance < 0.4:
            return f"{anchor}{tag}{_literal(random, indent)}"
        case chance if chance < 0.55:
            return f"{anchor}{tag}{_flow(random, 0)}{_comment(random)}"
        case _:
            return f"{anchor}{tag}{_scalar(random)}{_comment(random)}"


def _comment(random: Random) -> str:
    return random.choice((" # c", "\t# c", "#c", " #", "\n# c", "\n  # c")) if random.random() < 0.08 else ""


def _literal(random: Random, indent: int) -> str:
    head = random.choice("|>") + random.choice(
        ("", "", "-", "+", "1", "2", "-2", "2+", "0", "10", "+-", " # c", "\t", "#c")
    )
    lines = []
    for _ in range(random.randint(0, 4)):
        pad = " " * (indent + random.choice((0, 1, 2, 2, 2, 3, 4)))
        lines.append(random.choice(("", pad, f"{pad}a", f"{pad}b c", f"{pad}# d", f"{pad}\ta", "\ta", f"{pad}a: b ")))
    return "\n".join([head, *lines])


def _flow(random: Random, depth: int) -> str:
    if depth > 2 or random.random() < 0.4:
        return random.choice((_scalar(random), random.choice(_KEYS)))
    gap = random.choice(("",) * 4 + (" ", "\n ", "\t", "\n", " # c\n "))
    items = [_flow(random, depth + 1) for _ in range(random.randint(0, 3))]
    trailing = random.choice(("",) * 5 + (",", ", ,"))
    if random.random() < 0.5:
        return f"[{gap}{f', {gap}'.join(items)}{trailing}]"
    separator = random.choice((": ",) * 5 + (":", " :", ""))
    pairs = [f"{random.choice(_KEYS)}{separator}{item}" for item in items]
    return f"{{{gap}{f',{gap} '.join(pairs)}{trailing}}}"


def _scalar(random: Random) -> str:
    match random.random():
        case chance if chance < 0.5:
            return random.choice(_PLAIN)
        case chance if chance < 0.7:
            return random.choice(_QUOTED)
        case chance if chance < 0.85:
            return _digits(random)
        case chance if chance < 0.9:
            return f"!!binary {random.choice(_BINARY)}"
        case _:
            return f"{random.choice(_TAGS)} {random.choice((*_PLAIN, *_QUOTED, '[a]', '{a: 1}'))}"


def _digits(random: Random) -> str:
    return "".join(random.choice("0123456789017.e+-_xXbBoO:aF") for _ in range(random.randint(1, 10)))


def _mutated(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    match random.randrange(3):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + random.choice(_LETTERS) + text[at:]
        case _:
            return text[:at] + random.choice(_LETTERS) + text[at + 1 :]
