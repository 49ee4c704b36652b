"""Where the lab's API server is known to answer otherwise than a real one, each place with its reason.

At most kinds that are not served, and words. A difference that is not listed here fails the test, and so does an entry
that no longer shows.
"""

from dataclasses import dataclass

from dds_adapters.lab.conform.comparing import Difference


@dataclass(frozen=True)
class Known:
    """`places` are paths in the answer as `Difference.path` tells them."""

    question: str
    places: tuple[str, ...]
    reason: str


NOT_SERVED = (
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "scheduling.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)

KNOWN: tuple[Known, ...] = (
    Known(
        "api-groups",
        tuple(f"body.groups[{group}]" for group in NOT_SERVED),
        "these groups are not served: nothing on a composable cluster's way from a pod to a device needs their kinds",
    ),
)


def known(difference: Difference) -> Known | None:
    """The entry that explains a difference, None when there is none."""
    for entry in KNOWN:
        if entry.question == difference.question and difference.path in entry.places:
            return entry
    return None


def table() -> str:
    """The known differences as a Markdown table, one line for each entry."""
    lines = ["| question | where | why |", "|---|---|---|"]
    for entry in KNOWN:
        lines.append(f"| {entry.question} | {', '.join(f'`{place}`' for place in entry.places)} | {entry.reason} |")
    return "\n".join(lines)
