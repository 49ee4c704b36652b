"""Kubernetes quantities as exact integers in 10⁻⁹, the finest unit that the API keeps, and their canonical text."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from msgspec import Struct

from dds_core.errors import InputError

DECIMAL, BINARY, EXPONENT = "decimal", "binary", "exponent"
NANO = 10**9

_FORM = re.compile(r"([+-]?)(\d+)?(?:\.(\d*))?(?:([KMGTPE]i)|([eE][+-]?\d+)|([numkMGTPE]?))", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_LARGEST = (2**63 - 1) * NANO
_LONGEST = 400
"""Characters. A longer text is refused, since parsing its digits costs time."""


class Quantity(Struct, frozen=True, gc=False):
    """An amount in 10⁻⁹ and the form of its text (`decimal`, `binary`, `exponent`). To compare amounts, compare `nanos`."""

    nanos: int
    form: str = DECIMAL

    @classmethod
    def whole(cls, number: int, form: str = BINARY) -> Quantity:
        return cls(number * NANO, form)

    @property
    def integer(self) -> int:
        """The amount as an integer, rounded away from zero, as Value() in Go."""
        return _away_from_zero(self.nanos, NANO)

    def __str__(self) -> str:
        """The canonical text: `1Gi` for 1024Mi, `2500Mi`, `1500m`, `10k`."""
        if self.nanos == 0:
            return "0"
        if self.form == BINARY and self.nanos % NANO == 0 and abs(self.nanos) >= 1024 * NANO:
            number, power = self.nanos // NANO, 0
            while number % 1024 == 0 and power < 60:
                number, power = number // 1024, power + 10
            return f"{number}{_BINARY_SUFFIX[power]}"
        number, power = self.nanos, -9
        while number % 1000 == 0 and power < 18:
            number, power = number // 1000, power + 3
        if self.form == EXPONENT:
            return f"{number}e{power}" if power else str(number)
        return f"{number}{_DECIMAL_SUFFIX[power]}"


@lru_cache(maxsize=8192)
def parse(text: str) -> Quantity:
    """The quantity of a text such as `40Gi`, `2500Mi`, `100m` or `1e3`. InputError when the text is no quantity.

    As in resource.ParseQuantity, amounts finer than 10⁻⁹ are rounded away from zero, and 2⁶³−1 is the largest amount.
    """
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found[2] is None and not found[3]):
        raise InputError(f"{text[:80]!r} is no quantity", fix="write a number with a suffix, as 40Gi, 1500m or 1e3")
    sign, digits, fraction = found[1], found[2] or "", found[3] or ""
    power = 9 - len(fraction)
    if found[4]:
        form, scale = BINARY, 1 << _BINARY[found[4]]
    elif found[5]:
        form, scale = EXPONENT, 1
        power += max(-_LONGEST, min(_LONGEST, int(found[5][1:])))
    else:
        form, scale = DECIMAL, 1
        power += _DECIMAL[found[6]]
    number = int(digits + fraction) * scale
    nanos = number * 10**power if power >= 0 else _away_from_zero(number, 10**-power)
    nanos = min(nanos, _LARGEST)
    return Quantity(-nanos if sign == "-" else nanos, form)


def parsed(value: object) -> Quantity:
    """The quantity of a JSON value: a string or a number."""
    return parse(str(value))


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def amount(text: str) -> Fraction | None:
    """The value of a quantity. None when the text is no quantity."""
    try:
        return Fraction(parse(text).nanos, NANO)
    except InputError:
        return None
