"""Where the lab's API server is known to answer otherwise than a real one, each place with its reason.

At most kinds that are not served, and words. A difference that is not listed here fails the test, and so does an entry
that no longer shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dds_adapters.lab.conform.comparing import Difference


@dataclass(frozen=True)
class Known:
    """`places` are paths in the answer as `Difference.path` tells them. A difference that is `optional` depends on how the
    server was started, and need not show."""

    question: str
    places: tuple[str, ...]
    reason: str
    optional: bool = False


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
    Known(
        "api-groups",
        ("body.groups[resource.k8s.io].versions[1]", "body.groups[resource.k8s.io].versions[2]"),
        "v1beta2 and v1alpha3 of resource.k8s.io are optional: served when the lab is told to, as they were when recorded",
        optional=True,
    ),
)

_STRUCT = "a real server shows the value as Go prints its own structs, the lab as the JSON that was sent"
_PARSER = "the words of Go's JSON parser, which the lab does not have"

REWORDED: Mapping[str, str] = {
    "bad-json": _PARSER,
    "put-spec": _STRUCT,
    "status-allocation-immutable": _STRUCT,
    "list-bad-continue": _PARSER,
}
"""Questions to which the message is in other words (versions, uids and numbers aside); code, reason and fields are the same."""


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
    lines += [f"| {question} | `message` | {why} |" for question, why in REWORDED.items()]
    return "\n".join(lines)
