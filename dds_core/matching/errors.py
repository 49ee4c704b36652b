"""Errors in the choice of devices. All are errors in the input: a selector, a claim or a class."""

from __future__ import annotations

from dds_core.errors import InputError


class SelectorError(InputError):
    """A CEL selector does not compile, fails on a device, or gives no boolean."""

    def __init__(self, expression: str, reason: str, fix: str = "mend the expression") -> None:
        self.expression = expression
        self.reason = reason
        super().__init__(reason, where=f"selector {_short(expression)!r}", fix=fix)


class AllocationError(InputError):
    """The pod can be allocated on no node: its claims, a class or a selector are not valid as they are."""

    def __init__(
        self, what: str, *, claim: str = "", request: str = "", device: str = "", expression: str = "", fix: str = ""
    ) -> None:
        self.claim = claim
        self.request = request
        self.device = device
        self.expression = expression
        place = ", ".join(f"{kind} {name}" for kind, name in (("claim", claim), ("request", request)) if name)
        super().__init__(what, where=place, fix=fix)


def _short(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
