"""Whether a CEL selector can be compiled, asked of the one implementation that the project has."""

from functools import lru_cache

from dds_core.matching import cel
from dds_core.matching.errors import SelectorError


@lru_cache(maxsize=4096)
def problem(expression: str) -> str:
    """What keeps the expression from being a selector of devices, or nothing."""
    try:
        cel.compile(expression)
    except SelectorError as error:
        return f"compilation failed: {error}"
    return ""
