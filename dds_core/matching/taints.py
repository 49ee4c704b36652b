"""Which taints of a device keep a request away (KEP-5055)."""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.model import Taint, Toleration

BLOCKING = ("NoSchedule", "NoExecute")
"""Effects that stop an allocation; None and whatever is unknown only inform."""


def prevented(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether a taint stops the allocation that no toleration accepts."""
    return any(taint.effect in BLOCKING and not any(tolerates(each, taint) for each in tolerations) for taint in taints)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration accepts the taint; an empty effect or key accepts every one."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator == "Equal" and toleration.value == taint.value)
