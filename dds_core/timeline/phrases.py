"""Parts of sentences that the words of several kinds of events share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dds_core.model import Taint

MANY = 4
"""Lists of more names show only their number, the first and the last name."""


def taints(found: Sequence[Taint]) -> str:
    """Such as `key=value:NoSchedule`; "no more" without any."""
    return ", ".join(f"{t.key}{'=' + t.value if t.value else ''}:{t.effect}" for t in found) or "no more"


def labels(node: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each changed label."""
    for key in sorted(after.keys() | before.keys()):
        if after.get(key) != before.get(key):
            value = after.get(key)
            yield f"node {node}: label {key}" + (f"={value}" if value is not None else " was taken off")


def listed(names: Sequence[str], noun: str = "devices") -> str:
    """All names, or for more than `MANY` their number, the first and the last."""
    if len(names) > MANY:
        return f"{len(names)} {noun} ({names[0]} … {names[-1]})"
    return ", ".join(names)


def spoken(stream: str) -> str:
    """The words for a stream or a question to the fabric: `pool/DRIVER/POOL`, `stock/FABRIC/MODEL`, `limits/MACHINE`,
    `machines` or `entries`. Any other text is returned unchanged."""
    word, _, rest = stream.partition("/")
    first, _, last = rest.partition("/")
    if word == "pool" and last:
        return f"pool {last}"
    if word == "stock" and last:
        return f"{last} in fabric {first}"
    if word == "limits" and rest:
        return f"the limits of machine {rest}"
    return {"machines": "the list of machines", "entries": "entries of its answers"}.get(stream, stream)
