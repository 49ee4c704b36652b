"""Parts of sentences that several kinds of events are told with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dds_core.model import Taint

MANY = 4
"""More names than that are told by their number, the first and the last."""


def taints(found: Sequence[Taint]) -> str:
    """Such as `key=value:NoSchedule`; "no more" without any."""
    return ", ".join(f"{t.key}{'=' + t.value if t.value else ''}:{t.effect}" for t in found) or "no more"


def labels(node: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each label that is not as before."""
    for key in sorted(after.keys() | before.keys()):
        if after.get(key) != before.get(key):
            value = after.get(key)
            yield f"node {node}: label {key}" + (f"={value}" if value is not None else " was taken off")


def listed(names: Sequence[str], noun: str = "devices") -> str:
    """Names one by one, or how many they are."""
    if len(names) > MANY:
        return f"{len(names)} {noun} ({names[0]} … {names[-1]})"
    return ", ".join(names)


def spoken(stream: str) -> str:
    """A stream, or a question to the fabric, as people say it: `pool/DRIVER/POOL`, `stock/FABRIC/MODEL`, `limits/MACHINE`. What
    is none of these comes back as it is."""
    word, _, rest = stream.partition("/")
    first, _, last = rest.partition("/")
    if word == "pool" and last:
        return f"pool {last}"
    if word == "stock" and last:
        return f"{last} in fabric {first}"
    if word == "limits" and rest:
        return f"the limits of machine {rest}"
    return "the list of machines" if stream == "machines" else stream
