"""Kubernetes quantities as exact numbers, for the amounts that shares take from a device."""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?\d*\.?\d+|[+-]?\d+\.)(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))")
_SUFFIX = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000 ** (i + 1)) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")},
}


def amount(text: str) -> Fraction | None:
    """The value of a quantity such as `40Gi`, `2500Mi`, `100m` or `1e3`; None when it is not one."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIX[suffix or ""]
    return Fraction(number.rstrip(".")) * scale
