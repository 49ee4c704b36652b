"""Quantities as the API server's rules ask for them: all arithmetic is the core's, here is only what a server makes of it.

Errors are None or nothing: who asks knows where it was.
"""

from dds_core.errors import InputError
from dds_core.matching.quantities import NANO, parse

__all__ = ["NANO", "PATTERN", "canonical", "nanos"]

PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


def canonical(text: str) -> str | None:
    """The form in which a server writes the quantity, or None when it is none."""
    try:
        return str(parse(text))
    except InputError:
        return None


def nanos(text: str | None) -> int:
    """The amount in 10⁻⁹; 0 for what is no quantity."""
    try:
        return parse(text or "").nanos
    except InputError:
        return 0
