"""Kubernetes resource quantities (`resource.Quantity`): parsing, canonical text, and the fields that go-spew prints.

Follows apimachinery `pkg/api/resource`, which is equivalent here from Kubernetes 1.5 to 1.30. Go stores small amounts
as an int64 with a power of ten and all others as a big decimal, and it caches the text if that was canonical already.
Eras A and B hash all of this, so all of it is reproduced.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from ..errors import Misfit


class Format(StrEnum):
    """How a quantity was written, by Go's name."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


BLANKS = " \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What Go trims; tabs, ends of lines, U+2028 and U+2029 are escaped in the JSON that it trims, so they stay."""
_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_TEXT = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_TEXT = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}}

_NUMBER = re.compile(
    # Possessive quantifiers: no backtracking over long rows of zeros.
    r"(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+(?P<suffix>[eEinumkKMGTP]*+[+-]?[0-9]*+)",
    re.ASCII,
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
_DIGIT = re.compile("[0-9]")
_NANO = -9
_INT64_MAX = 2**63 - 1
# Real quantities are far below these limits. Beyond them, Go overflows an int32 or computes with a million digits.
_LONGEST_TEXT = 400
_LARGEST_EXPONENT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity with the internals that Go's struct has after parsing."""

    value: int = 0  # the int64 amount; 0 if `unscaled` is set
    scale: int = 0  # the power of ten of the amount
    unscaled: int | None = None  # the big decimal's digits; None if the int64 amount is used
    unscaled_scale: int = 9  # how many of those digits are decimals
    cached: str = ""  # the text if Go caches it, else empty
    format: Format | None = None  # how it was written; None only for Go's zero Quantity, in a field that was never set

    def amount(self) -> Fraction:
        """Return the exact number."""
        digits, exponent = self._digits_and_exponent()
        return Fraction(digits) * Fraction(10) ** exponent

    def text(self) -> str:
        """Return the text that Go writes to JSON: the cached text, else the canonical form.

        Raises:
            Misfit: Go would write a different number than it read.
        """
        return self.cached or self.canonical()

    def canonical(self) -> str:
        """Return the canonical form, with the largest suffix that leaves a whole number.

        Raises:
            Misfit: no suffix is large enough; Go would drop the suffix and write a different number.
        """
        digits, exponent = self._digits_and_exponent()
        if digits == 0:
            return "0"
        amount = self.amount()
        if self.format is Format.BINARY_SI and abs(amount) >= 1024 and amount.denominator == 1:
            return _binary_text(amount.numerator)
        while digits % 10 == 0:
            digits, exponent = digits // 10, exponent + 1
        digits, exponent = digits * 10 ** (exponent % 3), exponent - exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{digits}e{exponent}" if exponent else f"{digits}"
        if exponent not in _DECIMAL_TEXT:
            raise Misfit("a quantity is so large that Kubernetes itself loses its suffix")
        return f"{digits}{_DECIMAL_TEXT[exponent]}"

    def rounded_up_to_milli(self) -> "Quantity":
        """Return the quantity as Kubernetes' defaulting leaves it in a resource list: rounded up to a thousandth.

        Go then gives every big decimal exactly three decimals, even one that had none.
        """
        if self.unscaled is not None:
            thousandths = self.amount() * 1000
            unscaled = _divide_up(thousandths.numerator, thousandths.denominator)
            return replace(self, unscaled=unscaled, unscaled_scale=3)
        if self.scale >= -3:
            return self
        value = _divide_up(self.value, 10 ** (-3 - self.scale))
        return replace(self, value=value, scale=-3, cached="")

    def _digits_and_exponent(self) -> tuple[int, int]:
        if self.unscaled is not None:
            return self.unscaled, -self.unscaled_scale
        return self.value, self.scale


UNSET = Quantity()
"""Go's zero Quantity: a field that was never set."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Parse a quantity as Go's `ParseQuantity` does.

    Raises:
        Misfit: it is not a quantity, or one that Go itself does not store faithfully.
    """
    if text == "0":
        return Quantity(cached=text, format=Format.DECIMAL_SI)
    match = _NUMBER.fullmatch(text) if 0 < len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise Misfit(f"{text[:40]!r} is not a quantity")
    exponent, format_ = _suffix(match["suffix"], text)
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    quantity = _small(whole, fraction, exponent, format_, text) or _big(whole, fraction, exponent, format_)
    if quantity.unscaled is not None and not _DIGIT.search(text, 0, match.start("suffix")):
        raise Misfit(f"{text[:40]!r} is not a quantity: Go wants a digit before so large or small a suffix")
    if match["sign"] == "-":
        quantity = replace(quantity, value=-quantity.value, unscaled=quantity.unscaled and -quantity.unscaled)
    quantity.canonical()
    return quantity


def _suffix(suffix: str, text: str) -> tuple[int, Format]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise Misfit(f"{text[:40]!r} is not a quantity: unknown suffix {suffix[:20]!r}")
    exponent = int(match[1])
    if abs(exponent) > _LARGEST_EXPONENT:
        raise Misfit(f"quantity {text[:40]!r} is beyond the range in which Go's result is certain")
    return exponent, Format.DECIMAL_EXPONENT


def _small(whole: str, fraction: str, exponent: int, format_: Format, text: str) -> Quantity | None:
    """Return the int64 form of the number without its sign; None if Go would not use that form."""
    digits = whole + fraction
    if format_ is Format.BINARY_SI:
        # Go's estimate of the decimal digits left below 2**63. It is too strict, which is why 1Pi is "big".
        if fraction or 15 - len(whole) - exponent * 3 // 10 - 1 < 0:
            return None
        value, scale = int(whole) << exponent, 0
        canonical = int(whole) & 7 != 0
    else:
        scale = exponent - len(fraction)
        if len(digits) > 18 or scale < _NANO:
            return None
        value = int(digits)
        canonical = scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return Quantity(value=value, scale=scale, cached=text if canonical else "", format=format_)


def _big(whole: str, fraction: str, exponent: int, format_: Format) -> Quantity:
    """Return the big-decimal form without its sign: rounded up to nano; binary amounts capped at the largest int64."""
    digits = int(whole + fraction)
    if format_ is Format.BINARY_SI:
        amount = Fraction(digits << exponent, 10 ** len(fraction))
    else:
        amount = Fraction(digits) * Fraction(10) ** (exponent - len(fraction))
    if format_ is Format.BINARY_SI and amount > _INT64_MAX:
        return Quantity(unscaled=_INT64_MAX, unscaled_scale=0, format=format_)
    if format_ is Format.BINARY_SI and 0 < amount < 1:
        format_ = Format.DECIMAL_SI
    nanos = amount * 10**9
    return Quantity(unscaled=_divide_up(nanos.numerator, nanos.denominator), format=format_)


def _divide_up(number: int, divisor: int) -> int:
    """Divide, rounding away from zero."""
    quotient = -(-abs(number) // divisor)
    return quotient if number >= 0 else -quotient


def _binary_text(number: int) -> str:
    exponent = 0
    while number % 1024 == 0 and exponent < 60:
        number, exponent = number // 1024, exponent + 10
    return f"{number}{_BINARY_TEXT[exponent]}"


def resource_amount(text: str) -> Fraction:
    """Return the exact number that a resource.Quantity such as ``1.5Gi`` or ``250m`` stands for.

    Raises:
        ValueError: the text is not a quantity.
    """
    try:
        return parse(text.strip(BLANKS)).amount()
    except Misfit as error:
        raise ValueError(str(error)) from error
