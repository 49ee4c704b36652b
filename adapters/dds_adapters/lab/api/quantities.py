"""Kubernetes quantities as a server keeps them: exact, and written in one canonical form.

"1024Mi" is written "1Gi", "0.5" becomes "500m", "1e3" stays an exponent. Errors are None: who asks knows where it was.
"""

import re
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
LARGEST = 2**63 - 1


@lru_cache(maxsize=4096)
def parsed(text: str) -> Fraction | None:
    """The exact value, or None when the text is no quantity."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    sign, digits, suffix = found.groups()
    value = Fraction(digits.rstrip(".")) * _scale(suffix)
    return -value if sign == "-" else value


def _scale(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1024) ** _BINARY.index(suffix)
    if suffix in _DECIMAL:
        return Fraction(1000) ** (_DECIMAL.index(suffix) - 3)
    return Fraction(10) ** int(suffix[1:])


@lru_cache(maxsize=4096)
def canonical(text: str) -> str | None:
    """The form in which a server writes the quantity, or None when it is none.

    Binary suffixes stay binary while the value has no fraction (of a fraction Go makes the decimal form), exponents stay
    exponents; anything finer than a nano is rounded up.
    """
    value = parsed(text)
    if value is None:
        return None
    value = _rounded(value)
    if value == 0:
        return "0"
    found = _FORM.fullmatch(text)
    suffix = found.group(3) if found else ""
    if suffix.endswith("i") and value.denominator == 1 and abs(value) >= 1024:
        return _written(value.numerator, 1024, _BINARY)
    thousandths = value * 10**9
    digits, steps = thousandths.numerator, 0
    while digits % 1000 == 0 and steps < len(_DECIMAL) - 1:
        digits, steps = digits // 1000, steps + 1
    exponent = 3 * steps - 9
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and exponent:
        return f"{digits}e{exponent}"
    return f"{digits}{_DECIMAL[steps]}"


def _rounded(value: Fraction) -> Fraction:
    nanos = abs(value) * 10**9
    whole = -(-nanos.numerator // nanos.denominator)
    rounded = Fraction(whole, 10**9)
    return -rounded if value < 0 else rounded


def _written(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    steps = 0
    while number % base == 0 and steps < len(suffixes) - 1:
        number, steps = number // base, steps + 1
    return f"{number}{suffixes[steps]}"
